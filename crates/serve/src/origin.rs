//! Where a request comes from, by its headers: what does not parse is refused.

use crate::error::{Refusal, Reply};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, Version, header};
use std::net::{IpAddr, Ipv6Addr};

/// A host and its port, as `Host` and `Origin` name them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// In small letters; IPv6 in brackets.
    host: String,
    port: Option<u16>,
}

impl Place {
    /// `name`, `name:port`, `[::1]`, `[::1]:port` and nothing else.
    fn parse(text: &str) -> Option<Place> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (number, after) = rest.split_once(']')?;
                let number: Ipv6Addr = number.parse().ok()?;
                (format!("[{number}]"), after)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                let (name, after) = text.split_at(end);
                let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.' || b == b'_';
                if name.is_empty() || !name.bytes().all(plain) {
                    return None;
                }
                (name.to_ascii_lowercase(), after)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Place { host, port })
    }

    /// Whether only this machine bears the name.
    fn is_local(&self) -> bool {
        let number = self.host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        self.host == "localhost" || number.is_ok_and(|ip| ip.is_loopback())
    }

    /// The same with the port that HTTP means where none is named.
    fn with_port(&self) -> (&str, u16) {
        (&self.host, self.port.unwrap_or(80))
    }
}

/// The one value of a header: an error if there are several, or one that is no ASCII.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Reply<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let refuse = || Refusal::bad(format!("the header `{name}` cannot be read"));
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| refuse()),
        (Some(_), Some(_)) => Err(refuse()),
    }
}

/// The host that a request names. HTTP/1.1 must name one; where the path names one too, they must be the same.
fn host(request: &Request) -> Reply<Option<Place>> {
    let refuse = |why: &str| Err(Refusal::bad(why));
    let Some(text) = one(request.headers(), &header::HOST)? else {
        return match request.version() {
            Version::HTTP_10 | Version::HTTP_09 => Ok(None),
            _ => refuse("the request names no host"),
        };
    };
    let Some(place) = Place::parse(text) else { return refuse("the header `host` is no host") };
    match request.uri().authority() {
        Some(other) if Place::parse(other.as_str()).as_ref() != Some(&place) => {
            refuse("the path and the header `host` name different hosts")
        }
        _ => Ok(Some(place)),
    }
}

/// What every request must keep, with a token or without: one host that parses.
pub(crate) fn check_host(request: &Request) -> Reply<()> {
    host(request).map(drop)
}

/// Without a token a web page of elsewhere must not reach us through the browser of this machine: neither by a name that it
/// points here, nor by a form, nor from another port of this machine.
pub(crate) fn check_local(request: &Request) -> Reply<()> {
    let refuse = |why: &str| Err(Refusal::new(StatusCode::FORBIDDEN, why));
    let host = host(request)?;
    if host.as_ref().is_some_and(|host| !host.is_local()) {
        return refuse("without a token this server answers only to localhost, 127.0.0.1 and [::1]");
    }
    let foreign = "pages of other origins may not use this server";
    if let Some(origin) = one(request.headers(), &header::ORIGIN)? {
        let page = origin.strip_prefix("http://").and_then(Place::parse);
        let same = page.zip(host).is_some_and(|(page, host)| page.with_port() == host.with_port());
        if !same {
            return refuse(foreign);
        }
    }
    // Browsers say so also where they send no origin, as for pictures.
    match one(request.headers(), &HeaderName::from_static("sec-fetch-site"))? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => refuse(foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn status(uri: &str, headers: &[(&str, &[u8])]) -> u16 {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        match check_host(&request).and_then(|()| check_local(&request)) {
            Ok(()) => 200,
            Err(refusal) => refusal.status.as_u16(),
        }
    }

    #[test]
    fn hosts_of_this_machine_are_answered_and_others_are_not() {
        let host = |host: &[u8]| status("/", &[("host", host)]);
        for good in ["localhost:8080", "LOCALHOST", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::1]"] {
            assert_eq!(host(good.as_bytes()), 200, "{good}");
        }
        for foreign in ["evil.example:8080", "localhost.evil.example", "10.0.0.1", "[fe80::1]"] {
            assert_eq!(host(foreign.as_bytes()), 403, "{foreign}");
        }
        let broken: [&[u8]; 12] = [
            b"",
            b"localhost:",
            b"localhost:x",
            b"localhost:99999",
            b"localhost:80:80",
            b"a@localhost",
            b"localhost/x",
            b"[::1",
            b"[::1]x",
            b"::1",
            b"local host",
            b"localhost\xff",
        ];
        for broken in broken {
            assert_eq!(host(broken), 400, "{}", String::from_utf8_lossy(broken));
        }
        assert_eq!(status("/", &[]), 400);
        assert_eq!(status("/", &[("host", b"localhost"), ("host", b"localhost")]), 400);
        assert_eq!(status("http://evil.example/", &[("host", b"localhost")]), 400);
        let mut old = Request::new(Body::empty());
        *old.version_mut() = Version::HTTP_10;
        assert!(check_local(&old).is_ok());
    }

    #[test]
    fn only_the_own_page_may_ask() {
        let from = |origin: &[u8]| status("/", &[("host", b"127.0.0.1:8080"), ("origin", origin)]);
        assert_eq!(from(b"http://127.0.0.1:8080"), 200);
        assert_eq!(status("/", &[("host", b"localhost"), ("origin", b"http://localhost:80")]), 200);
        let foreign = [
            "https://evil.example",
            "http://evil.example://localhost",
            "null",
            "http://127.0.0.1:3000",
            "http://localhost:8080",
            "https://127.0.0.1:8080",
            "http://127.0.0.1:8080/",
            "http://127.0.0.1:8080@evil.example",
            "",
        ];
        for foreign in foreign {
            assert_eq!(from(foreign.as_bytes()), 403, "{foreign}");
        }
        assert_eq!(from(b"http://127.0.0.1:8080\xff"), 400);
        let fetched = |site: &[u8]| status("/", &[("host", b"localhost"), ("sec-fetch-site", site)]);
        assert_eq!((fetched(b"same-origin"), fetched(b"none")), (200, 200));
        assert_eq!((fetched(b"cross-site"), fetched(b"same-site"), fetched(b"")), (403, 403, 403));
    }
}
