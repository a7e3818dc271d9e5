//! Whose a socket is, and by which device its packets leave.

use aya_ebpf::btf_maps::lpm_trie::Key;
use wad_common::policy::INTERFACE_BYTES;
use wad_ebpf::{
    behind::Behind,
    kernel::Access,
    maps::{CGROUP_SETS, INTERFACE_SETS},
};

use super::{Visited, offsets::offset};

/// Levels of cgroups that are climbed at most; the kernel's own bound
/// (`cgroup.max.depth`) has no default.
const CGROUP_LEVELS: u32 = 64;

/// Number of the cgroup that the tuner is on: set as `SOCK` is.
#[unsafe(no_mangle)]
static CGROUP: u64 = u64::MAX;

impl Visited {
    /// Whether it is of the tuner's cgroup or of one below: no other is ours to
    /// touch.
    #[inline(always)]
    pub fn is_in_cgroup(&self) -> bool {
        // SAFETY: a valid static, volatile as above.
        let wanted = unsafe { (&raw const CGROUP).read_volatile() };
        let mut cgroup = self.kernel().follow(offset!(cgroup));
        for _ in 0..CGROUP_LEVELS {
            if cgroup.is_null() {
                return false;
            }
            let id: u64 = cgroup.follow(offset!(cgroup_node)).read(offset!(node_id));
            if id == wanted {
                return true;
            }
            let parent = cgroup.follow(offset!(cgroup_parent));
            if parent.is_null() {
                return false;
            }
            cgroup = parent.follow(offset!(state_cgroup));
        }
        false
    }

    /// Whether a process holds it: an orphan makes no other connection.
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        let file = self.0.cast::<u8>().wrapping_add(offset!(file) as usize);
        !Behind::pointer(file).is_null()
    }

    #[inline(always)]
    fn own_cgroup(&self) -> Behind {
        Behind::pointer(self.0.cast::<u8>().wrapping_add(offset!(cgroup) as usize))
    }

    /// Returns the mark of its packets (SO_MARK). An accepted one has that of its listener, or,
    /// with `net.ipv4.tcp_fwmark_accept` and none there, of the SYN (`inet_request_mark()`).
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        self.number_at(offset!(mark))
    }

    /// Whether it has a route at the moment. Some options of a socket take it away until the
    /// next packet leaves (`sk_dst_reset()`).
    #[inline(always)]
    pub fn has_route(&self) -> bool {
        !self.route().is_null()
    }

    #[inline(always)]
    fn route(&self) -> Behind {
        Behind::pointer(self.0.cast::<u8>().wrapping_add(offset!(route) as usize))
    }

    /// Returns the patterns of a policy set that the device fits which its route leaves by;
    /// none where it has no route. One that is made has its route before the SYN
    /// (`tcp_v4_connect()`), one that is accepted before it is established
    /// (`tcp_v4_syn_recv_sock()`).
    #[inline(always)]
    pub fn interfaces(&self, set: u32) -> u64 {
        let Some(known) = INTERFACE_SETS.get(set) else { return 0 };
        let device = self.route().follow(offset!(route_device));
        let name: [u8; INTERFACE_BYTES] = device.read(offset!(device_name));
        known.get(&Key::new(8 * INTERFACE_BYTES as u32, name)).copied().unwrap_or(0)
    }

    /// Returns the patterns of a policy set that its cgroup fits, or one around that. It is
    /// the cgroup of who made the socket, or its listener (`cgroup_sk_alloc()`,
    /// `cgroup_sk_clone()`).
    #[inline(always)]
    pub fn cgroups(&self, set: u32) -> u64 {
        let Some(known) = CGROUP_SETS.get(set) else { return 0 };
        let mut cgroup = self.own_cgroup();
        let mut patterns = 0;
        for _ in 0..CGROUP_LEVELS {
            if cgroup.is_null() {
                break;
            }
            let id: u64 = cgroup.follow(offset!(cgroup_node)).read(offset!(node_id));
            // SAFETY: a number, which is copied at once: whoever takes the cgroup out of
            // the map meanwhile may have another in its place, which is then as good.
            if let Some(bits) = unsafe { known.get(id) } {
                patterns |= *bits;
            }
            let parent = cgroup.follow(offset!(cgroup_parent));
            if parent.is_null() {
                break;
            }
            cgroup = parent.follow(offset!(state_cgroup));
        }
        patterns
    }
}

impl<A: Access> Visited<A> {
    /// Returns the number of its cgroup; 0 where the kernel does not say.
    #[inline(always)]
    pub fn cgroup(&self) -> u64 {
        let cgroup = self.kernel().follow(offset!(cgroup));
        cgroup.follow(offset!(cgroup_node)).read(offset!(node_id))
    }

    /// Returns the user that it belongs to: who made it (`sock_alloc()`); from its
    /// listener's to that of who accepted it, when that happens (`sock_graft()`).
    #[inline(always)]
    pub fn user(&self) -> u32 {
        self.number_at(offset!(user))
    }

    /// Inode of its network namespace.
    #[inline(always)]
    pub fn netns(&self) -> u32 {
        self.kernel().follow(offset!(net)).read(offset!(net_inode))
    }
}
