//! TCP has an option for selective acknowledgements (RFC 2018).

/// Kinds of options; the first two are a byte each (RFC 9293, 3.2).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const SACK: u8 = 5;

/// Returns the first sequence number and the one after the last of each stretch of
/// bytes that a header's options acknowledge selectively.
pub fn blocks(mut options: &[u8]) -> impl Iterator<Item = [u32; 2]> {
    let mut blocks: &[u8] = &[];
    while let [kind, rest @ ..] = options
        && *kind != END
    {
        if *kind == NO_OPERATION {
            options = rest;
            continue;
        }
        let length = rest.first().map_or(0, |length| usize::from(*length));
        let Some((option, next)) = options.split_at_checked(length.max(2)) else { break };
        if *kind == SACK {
            blocks = &option[2..];
        }
        options = next;
    }
    let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
    blocks.chunks_exact(8).map(move |block| [number(&block[..4]), number(&block[4..])])
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns the option, in the place that it has in a header: after a timestamp's.
    pub fn option(sacked: &[[u32; 2]]) -> Vec<u8> {
        let mut bytes = vec![NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * sacked.len() as u8];
        bytes.extend(sacked.iter().flatten().flat_map(|edge| edge.to_be_bytes()));
        bytes
    }

    const TIMESTAMP: [u8; 12] = [1, 1, 8, 10, 9, 8, 7, 6, 5, 4, 3, 2];

    #[test]
    fn reads_what_is_acknowledged_selectively() {
        let sacked = [[7, 1455], [0xffff_fff0, 3]];
        let options = [&TIMESTAMP[..], &option(&sacked)].concat();
        assert_eq!(blocks(&options).collect::<Vec<_>>(), sacked);
        assert_eq!(blocks(&TIMESTAMP).count(), 0);
    }

    #[test]
    fn options_of_any_length_one_after_the_end_and_one_that_is_cut_off() {
        let two = option(&[[7, 1455], [1, 3]]);
        for (first, count) in [([5, 18, 0, 0], 2), ([0, 5, 18, 0], 0), ([5, 200, 0, 0], 0)] {
            let options = [&first[..], &two[4..]].concat();
            assert_eq!(blocks(&options).count(), count, "{first:?}");
        }
    }
}
