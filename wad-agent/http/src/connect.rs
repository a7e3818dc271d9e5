//! Connects to the first of a server's addresses that answers (Happy Eyeballs, RFC 8305):
//! IPv6 and IPv4 in turns, a further one a quarter of a second after the last, or as soon
//! as that has failed. The others are given up.

use std::{future, io, net::SocketAddr, time::Duration};

use tokio::{net::TcpStream, task::JoinSet, time::sleep};

/// An address is alone for so long: RFC 8305 section 8, "Connection Attempt Delay".
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Says what the last address to fail had to say, if all do.
pub async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut next = in_turns(addresses).into_iter();
    let mut attempts = JoinSet::new();
    let mut last = io::ErrorKind::NotFound.into();
    loop {
        if let Some(address) = next.next() {
            attempts.spawn(TcpStream::connect(address));
        } else if attempts.is_empty() {
            return Err(last);
        }
        let are_left = next.len() > 0;
        let delay =
            async { if are_left { sleep(ATTEMPT_DELAY).await } else { future::pending().await } };
        tokio::select! {
            Some(attempt) = attempts.join_next() => match attempt.map_err(io::Error::from).flatten() {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            },
            () = delay => {}
        }
    }
}

/// Returns the addresses of the one family and the other in turns, each in the order of
/// this host's preference; its first choice stays the first (section 4).
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_first_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == is_first_v6);
    let (mut first, mut other) = (first.into_iter(), other.into_iter());
    let mut turns = Vec::new();
    loop {
        let pair = [first.next(), other.next()];
        if pair == [None, None] {
            return turns;
        }
        turns.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Instant};

    use tokio::{net::TcpSocket, time::timeout};

    use super::*;

    /// An address that does not answer: the kernel drops what comes when nobody accepts.
    async fn silent() -> (tokio::net::TcpListener, Vec<JoinSet<io::Result<TcpStream>>>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut filling = Vec::new();
        loop {
            let mut attempt = JoinSet::new();
            attempt.spawn(TcpStream::connect(address));
            let is_full = timeout(Duration::from_millis(100), attempt.join_next()).await.is_err();
            filling.push(attempt);
            if is_full {
                return (listener, filling);
            }
        }
    }

    fn answering(address: &str) -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Nobody listens there any more.
    fn refusing() -> SocketAddr {
        answering("127.0.0.1:0").1
    }

    #[tokio::test]
    async fn addresses_that_keep_silent_cost_a_quarter_of_a_second_each() {
        let (silent, _filling) = silent().await;
        let silent = silent.local_addr().unwrap();
        let (_listener, good) = answering("127.0.0.1:0");
        let begun = Instant::now();
        let stream = connect(vec![silent, silent, good]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        let took = begun.elapsed();
        assert!((2 * ATTEMPT_DELAY..8 * ATTEMPT_DELAY).contains(&took), "{took:?}");
    }

    #[tokio::test]
    async fn addresses_that_refuse_cost_nothing_and_the_last_error_is_told() {
        let (_listener, good) = answering("127.0.0.1:0");
        let begun = Instant::now();
        let stream = connect(vec![refusing(), refusing(), refusing(), good]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert!(begun.elapsed() < 2 * ATTEMPT_DELAY);
        let error = connect(vec![refusing(), refusing()]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn families_take_turns_from_the_first_choice_on() {
        let turns = |addresses: &[&str]| -> Vec<String> {
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            in_turns(addresses).iter().map(ToString::to_string).collect()
        };
        let (a, b, c) = ("[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1");
        let (x, y) = ("192.0.2.1:1", "192.0.2.2:1");
        assert_eq!(turns(&[a, b, c, x, y]), [a, x, b, y, c]);
        assert_eq!(turns(&[x, y, a]), [x, a, y]);
        assert_eq!(turns(&[x]), [x]);
    }
}
