//! Who counts as one client, wherever clients share something.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::net::IpAddr;

/// Addresses that count as one client: an address of version 4, or the network that one customer has of version 6.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Peer([u8; 8]);

impl Peer {
    pub(crate) fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                Peer([0, 0, 0, 0, a, b, c, d])
            }
            IpAddr::V6(v6) => Peer(std::array::from_fn(|i| v6.octets()[i])),
        }
    }
}

/// Every connection names its client to its requests.
impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Peer, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_customer_is_one_client() {
        let of = |address: &str| Peer::of(address.parse().unwrap());
        assert_eq!(of("127.0.0.1"), of("::ffff:127.0.0.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:0:0:1"));
        assert!(of("127.0.0.1") != of("127.0.0.2") && of("2001:db8::1") != of("2001:db8:0:1::1"));
    }
}
