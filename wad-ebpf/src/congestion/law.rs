//! The struct_ops programs of a law, one for each member of `tcp_congestion_ops`
//! that it needs, made by one line for each law.
//!
//! aya-obj knows no `struct_ops` section. The programs are in sections that it
//! parses like any other, `freplace/MEMBER`, and the agent loads them itself. A
//! program is named `LAW_MEMBER`, and one that laws share `wad_MEMBER`, or by their kind.

/// Makes the program of this name for a member of `tcp_congestion_ops`.
macro_rules! callback {
    ($prefix:literal, $member:literal, $run:expr) => {
        const _: () = {
            #[unsafe(export_name = concat!($prefix, "_", $member))]
            #[unsafe(link_section = concat!("freplace/", $member))]
            extern "C" fn callback(ctx: $crate::context::Context) -> u64 {
                $run(ctx)
            }
        };
    };
}

/// Makes the programs of a law: of one that answers to losses under the kernel's own
/// recovery, from its response to a window, or from a module where that takes a state; of one
/// that has window and pacing rate to itself, from the module that holds its callbacks.
macro_rules! law {
    ($name:literal answers_to_losses $response:expr) => {
        callback!($name, "cong_avoid", |ctx| {
            $crate::loss_based::cong_avoid_by_pair(ctx, $response)
        });
        callback!($name, "ssthresh", |ctx| $crate::loss_based::ssthresh(ctx, $response));
        callback!($name, "set_state", |ctx| $crate::loss_based::set_state(ctx, $response));
    };
    ($name:literal answers_to_losses by $law:ident) => {
        callback!($name, "cong_avoid", $law::cong_avoid);
        callback!($name, "ssthresh", $law::ssthresh);
        callback!($name, "set_state", $law::set_state);
    };
    ($name:literal is_in_control $law:ident) => {
        callback!($name, "init", $law::init);
        callback!($name, "cong_control", $law::cong_control);
        callback!($name, "ssthresh", $law::ssthresh);
    };
}

pub(crate) use {callback, law};
