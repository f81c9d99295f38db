//! How a listener stops taking connections without losing one: whoever connects in the moment it is closed would be taken by the
//! system, never be seen by us, and be reset.

use tokio::net::TcpListener;

/// Lets nobody new begin to connect; who has begun may finish and be accepted. Where the system has no such filter, nothing changes.
#[cfg(target_os = "linux")]
pub(super) fn shut(listener: &TcpListener) {
    use socket2::{SockFilter, SockRef};
    // A packet is seen from its TCP header on; byte 13 has the flags, and SYN (2) asks for a connection.
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_ANY_BIT: u16 = 0x45;
    const RETURN: u16 = 0x06;
    let no_syn = [
        SockFilter::new(LOAD_BYTE, 0, 0, 13),
        SockFilter::new(JUMP_IF_ANY_BIT, 0, 1, 2),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ];
    // A system that refuses it (a sandbox) closes as others do.
    let _ = SockRef::from(listener).attach_filter(&no_syn);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn shut(_: &TcpListener) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    #[tokio::test]
    async fn who_is_connected_is_accepted_and_nobody_connects_any_more() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                assert!(address.contains("::1"), "no loopback");
                continue;
            };
            let address = listener.local_addr().unwrap();
            let mut early = TcpStream::connect(address).unwrap();
            shut(&listener);
            let late = TcpStream::connect_timeout(&address, Duration::from_millis(200));
            assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
            let (stream, _) = listener.accept().await.unwrap();
            early.write_all(b"asked").unwrap();
            let mut stream = stream.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            drop(listener);
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
            early.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"asked");
        }
    }
}
