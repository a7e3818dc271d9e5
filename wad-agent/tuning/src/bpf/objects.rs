//! The BPF objects, built with the agent and embedded in it.

/// Makes the bytes as aligned as the parser wants them.
#[repr(C, align(32))]
struct Aligned<T: ?Sized>(T);

static TUNER_ALIGNED: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tuner.o")));
static CONGESTION_ALIGNED: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/congestion.o")));

/// The sock_ops program and the maps.
pub fn tuner() -> &'static [u8] {
    &TUNER_ALIGNED.0
}

/// The struct_ops programs.
pub fn congestion() -> &'static [u8] {
    &CONGESTION_ALIGNED.0
}

/// Whether this build has them; one made without bpf-linker has not.
pub fn are_embedded() -> bool {
    !tuner().is_empty() && !congestion().is_empty()
}

/// It changes with what the agent pins beside them.
const PINS: &[u8] = b"the tuner's program, policies";

/// Names what the programs are and expect of their maps: tuning that another
/// build pinned can be taken over as it is if this agrees. FNV-1a over both objects.
pub fn layout() -> String {
    let all = tuner().iter().chain(congestion()).chain(PINS);
    let hash = all.fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
