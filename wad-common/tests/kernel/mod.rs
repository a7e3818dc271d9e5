//! Reno is written as the kernel has it: `net/ipv4/tcp_cong.c` of Linux 6.18, line by
//! line, with its names. Windows in segments.

/// The fields of `struct tcp_sock` that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSock {
    pub snd_cwnd: u32,
    pub snd_cwnd_cnt: u32,
    pub snd_cwnd_clamp: u32,
    pub snd_ssthresh: u32,
    pub prior_cwnd: u32,
}

/// Does as the kernel's `tcp_reno_cong_avoid()`, of a flow that
/// `tcp_is_cwnd_limited()`.
pub fn tcp_reno_cong_avoid(tp: &mut TcpSock, mut acked: u32) {
    if tp.snd_cwnd < tp.snd_ssthresh {
        acked = tcp_slow_start(tp, acked);
        if acked == 0 {
            return;
        }
    }
    tcp_cong_avoid_ai(tp, tp.snd_cwnd, acked);
}

/// Does as the kernel's `tcp_slow_start()`.
fn tcp_slow_start(tp: &mut TcpSock, mut acked: u32) -> u32 {
    let cwnd = (tp.snd_cwnd + acked).min(tp.snd_ssthresh);
    acked -= cwnd - tp.snd_cwnd;
    tp.snd_cwnd = cwnd.min(tp.snd_cwnd_clamp);
    acked
}

/// Does as the kernel's `tcp_cong_avoid_ai()`.
fn tcp_cong_avoid_ai(tp: &mut TcpSock, w: u32, acked: u32) {
    if tp.snd_cwnd_cnt >= w {
        tp.snd_cwnd_cnt = 0;
        tp.snd_cwnd += 1;
    }
    tp.snd_cwnd_cnt += acked;
    if tp.snd_cwnd_cnt >= w {
        let delta = tp.snd_cwnd_cnt / w;
        tp.snd_cwnd_cnt -= delta * w;
        tp.snd_cwnd += delta;
    }
    tp.snd_cwnd = tp.snd_cwnd.min(tp.snd_cwnd_clamp);
}

/// Does as the kernel's `tcp_reno_ssthresh()`.
pub fn tcp_reno_ssthresh(tp: &TcpSock) -> u32 {
    (tp.snd_cwnd >> 1).max(2)
}

/// Does as the kernel's `tcp_reno_undo_cwnd()`.
pub fn tcp_reno_undo_cwnd(tp: &TcpSock) -> u32 {
    tp.snd_cwnd.max(tp.prior_cwnd)
}
