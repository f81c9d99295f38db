//! Who may ask, and how: a bearer token, and without one only pages and programs of this machine; methods that are known, paths
//! of bounded length.

use crate::App;
use crate::error::{Answer, Refusal};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The rule of a server.
pub struct Guard {
    /// Hash of the token: equal time whatever is compared.
    token: Option<blake3::Hash>,
}

impl Guard {
    pub fn new(token: Option<&str>) -> Guard {
        Guard { token: token.map(|t| blake3::hash(t.as_bytes())) }
    }

    /// Whether a request with these headers may use the API.
    pub fn check(&self, headers: &HeaderMap) -> Answer<()> {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
        match self.token {
            Some(token) => {
                let brought = text(header::AUTHORIZATION).and_then(|v| v.strip_prefix("Bearer "));
                // blake3's hashes compare in constant time.
                if brought.is_some_and(|b| blake3::hash(b.trim().as_bytes()) == token) {
                    return Ok(());
                }
                let why = "this server needs its token: send `Authorization: Bearer TOKEN`";
                Err(Refusal::new(StatusCode::UNAUTHORIZED, why))
            }
            None => {
                // Without a token a web page of elsewhere must not reach us through the browser of this machine:
                // neither by a name that it points here, nor by a form.
                let host = text(header::HOST).map(host_name);
                if !host.is_none_or(is_local) {
                    let why = "without a token this server answers only to localhost, 127.0.0.1 and [::1]";
                    return Err(Refusal::new(StatusCode::FORBIDDEN, why));
                }
                let origin = text(header::ORIGIN).map(|o| host_name(o.split("://").last().unwrap_or(o)));
                if !origin.is_none_or(is_local) {
                    return Err(Refusal::new(
                        StatusCode::FORBIDDEN,
                        "pages of other origins may not use this server",
                    ));
                }
                Ok(())
            }
        }
    }
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_local(name: &str) -> bool {
    let number = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || number.is_ok_and(|ip| ip.is_loopback())
}

/// What anyone may ask for: the page, the description of the API, and whether the server lives.
const OPEN: [&str; 3] = ["/", "/openapi.json", "/health"];
/// Methods that the server knows. Others are refused before anything is remembered of them.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
/// Most bytes of a path with its query.
const MAX_URI: usize = 4096;
/// Most bytes of all headers: a browser may bring cookies of other servers of this machine.
const MAX_HEADERS: usize = 32 << 10;

/// The outermost layer: what it refuses reaches neither a route nor the counters by route.
pub async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match admit(&app.guard, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            app.metrics.refused.fetch_add(1, Ordering::Relaxed);
            refusal.into_response()
        }
    }
}

fn admit(guard: &Guard, request: &Request) -> Answer<()> {
    if !METHODS.contains(request.method()) {
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "this method is not known; see /openapi.json"));
    }
    let uri = request.uri();
    if uri.path().len() + uri.query().map_or(0, str::len) > MAX_URI {
        return Err(Refusal::new(
            StatusCode::URI_TOO_LONG,
            format!("a path may have at most {MAX_URI} bytes"),
        ));
    }
    let headers: usize =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers > MAX_HEADERS {
        let why = format!("headers may have at most {MAX_HEADERS} bytes together");
        return Err(Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why));
    }
    match OPEN.contains(&uri.path()) {
        true => Ok(()),
        false => guard.check(request.headers()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_token_is_asked_for_and_compared_whole() {
        let guard = Guard::new(Some("secret"));
        let with = |value: &str| guard.check(&headers(&[(header::AUTHORIZATION, value)])).is_ok();
        assert!(with("Bearer secret"));
        for wrong in ["Bearer secre", "Bearer secret1", "Basic secret", "secret", "Bearer "] {
            assert!(!with(wrong), "{wrong}");
        }
        assert!(guard.check(&HeaderMap::new()).is_err());
    }

    #[test]
    fn without_a_token_only_this_machine_is_answered() {
        let guard = Guard::new(None);
        let from = |host: &str, origin: Option<&str>| {
            let mut all = headers(&[(header::HOST, host)]);
            origin.map(|o| all.insert(header::ORIGIN, o.parse().unwrap()));
            guard.check(&all).is_ok()
        };
        assert!(from("localhost:8080", None) && from("127.0.0.1:1", None) && from("[::1]:80", None));
        assert!(from("127.0.0.1:8080", Some("http://127.0.0.1:8080")));
        assert!(from("localhost", Some("http://localhost:8080")));
        assert!(!from("evil.example:8080", None));
        assert!(!from("127.0.0.1:8080", Some("https://evil.example")));
        assert!(!from("127.0.0.1:8080", Some("null")));
    }
}
