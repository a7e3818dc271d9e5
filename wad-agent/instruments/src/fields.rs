//! Members of `struct tcp_sock`, by the names that the running kernel has for them.

use std::collections::HashSet;

use wad_common::instruments::{MAX_MEMBERS, Members, Place};
use wad_struct_ops::{BtfError, KernelBtf, Number};

use super::{Instrument, field::Field, seen::MEMBERS};

const STRUCT: &str = "tcp_sock";

/// Names that are offered in the place of an unknown one.
const MOST_NEAR: usize = 3;

/// Says why members cannot be read by these names.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    #[error("`{name}` is no number in this kernel's `struct tcp_sock`; near to it {}", list(near))]
    UnknownField { name: String, near: Vec<String> },
    #[error(
        "more fields are asked for than are read at once: {most} of these, and {} for the \
         instruments that every reading has, of {MAX_MEMBERS}",
        MEMBERS.len()
    )]
    TooManyFields { most: usize },
    #[error(transparent)]
    Btf(#[from] BtfError),
}

impl FieldError {
    /// Whether it is the question that is wrong.
    pub const fn is_of_question(&self) -> bool {
        !matches!(self, Self::Btf(_))
    }
}

fn list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {}", if quoted.len() == 1 { "is" } else { "are" }, quoted.join(", "))
}

/// All that is read of a flow.
#[derive(Debug)]
pub struct Fields {
    /// Where it is.
    pub members: Members,
    /// The fields of the instruments, in the order of [`MEMBERS`]; None for what none of
    /// them is made of, and for what this kernel lacks.
    pub standard: Vec<Option<Field>>,
    /// The fields that were asked for by name.
    pub asked: Vec<Field>,
}

impl Fields {
    /// Returns what these instruments are made of, and members by their names.
    pub fn of(
        btf: &KernelBtf,
        instruments: &[&Instrument],
        names: &[String],
    ) -> Result<Self, FieldError> {
        let needed: HashSet<usize> =
            instruments.iter().flat_map(|instrument| instrument.origin.members()).collect();
        let mut members = Members::NONE;
        let standard = MEMBERS.iter().enumerate().map(|(n, name)| {
            if !needed.contains(&n) {
                return None;
            }
            let number = btf.number(STRUCT, name).ok()?;
            add(&mut members, number, number.is_whole())
        });
        let standard = standard.collect();
        let mut asked = Vec::new();
        for name in names {
            let number = btf.number(STRUCT, name).map_err(|error| refusal(btf, name, error))?;
            let most = names.len() - 1;
            let field = add(&mut members, number, false);
            asked.push(field.ok_or(FieldError::TooManyFields { most })?);
        }
        Ok(Self { members, standard, asked })
    }
}

/// Adds a member; None where there is no more room.
fn add(members: &mut Members, number: Number, is_plain: bool) -> Option<Field> {
    let n = members.count as usize;
    let (offset, shift) = (number.offset_bits / 8, number.offset_bits % 8);
    let bytes = (shift + number.size_bits).div_ceil(8);
    if n == MAX_MEMBERS || bytes > 8 {
        return None;
    }
    members.places[n] = Place { offset, bytes: bytes as u16, is_plain: is_plain.into() };
    members.count += 1;
    Some(Field { n, shift, size_bits: number.size_bits, is_signed: number.is_signed })
}

fn refusal(btf: &KernelBtf, name: &str, error: BtfError) -> FieldError {
    if !matches!(error, BtfError::NoMember { .. } | BtfError::NoNumber { .. }) {
        return error.into();
    }
    let known = btf.numbers(STRUCT).unwrap_or_default();
    FieldError::UnknownField { name: name.to_owned(), near: nearest(name, &known) }
}

/// Returns the nearest names: the same name elsewhere comes first.
fn nearest(name: &str, known: &[String]) -> Vec<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let wanted = last(name);
    let mut near: Vec<_> = known
        .iter()
        .map(|path| {
            let distance = strsim::damerau_levenshtein(&wanted, &last(path));
            (distance, strsim::damerau_levenshtein(name, path), path)
        })
        .collect();
    near.sort_unstable();
    near.into_iter().take(MOST_NEAR).map(|(.., path)| path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{STANDARD, WITHOUT_EQUAL};

    #[test]
    fn bits_are_cut_out_and_signs_kept() {
        let field = |shift, size_bits, is_signed| Field { n: 0, shift, size_bits, is_signed };
        assert_eq!(field(3, 2, false).bits(0b1111_0111), 2);
        assert!((field(0, 32, true).number(0xffff_fffe) + 2.0).abs() < 1e-9);
        assert!((field(0, 32, false).number(0xffff_fffe) - 4_294_967_294.0).abs() < 1e-9);
        assert_eq!(field(0, 64, false).bits(u64::MAX), u64::MAX);
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_near_it() {
        let known = ["snd_wl1", "snd_wnd", "inet_conn.icsk_rto", "segs_in"].map(str::to_owned);
        assert_eq!(nearest("icsk_rto", &known)[0], "inet_conn.icsk_rto");
        assert_eq!(nearest("snd_wn", &known)[..2], ["snd_wnd", "snd_wl1"]);
    }

    /// The test is for a host that tells of its kernel's types.
    #[test]
    fn this_kernels_members_are_found() {
        let Ok(btf) = KernelBtf::read() else { return };
        let names = ["snd_wl1", "inet_conn.icsk_ca_state", "chrono_stat[2]"].map(str::to_owned);
        let all: Vec<_> = STANDARD.iter().collect();
        let fields = Fields::of(&btf, &all, &names).unwrap();
        assert!(fields.standard.iter().all(Option::is_some));
        assert_eq!(fields.members.count as usize, MEMBERS.len() + names.len());
        // A byte with other bits in it.
        assert!(fields.asked[1].size_bits < 8);
        for name in ["snd_wl", "chrono_stat[3]", "chrono_stat", "inet_conn", "rtt_min.s[0].", ""] {
            let error = Fields::of(&btf, &all, &[name.to_owned()]).unwrap_err();
            assert!(matches!(error, FieldError::UnknownField { .. }), "{name}: {error}");
        }
        let error = Fields::of(&btf, &all, &["icsk_rto".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("inet_conn.icsk_rto"), "{error}");
    }

    #[test]
    fn the_fields_that_are_named_in_the_place_of_instruments_are_there() {
        let Ok(btf) = KernelBtf::read() else { return };
        for (instruments, why) in WITHOUT_EQUAL {
            let quoted = why.split('`').skip(1).step_by(2);
            for name in quoted.filter(|name| !["role", "wad explain", "total_rto"].contains(name)) {
                assert!(btf.number(STRUCT, name).is_ok(), "{instruments}: {name}");
            }
        }
    }
}
