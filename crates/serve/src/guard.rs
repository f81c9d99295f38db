//! Who may ask, and how: a bearer token, and without one only pages and programs of this machine; methods that are known, paths
//! of bounded length.

use crate::App;
use crate::error::{Refusal, Reply};
use crate::origin::{check_host, check_local};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The rule of a server.
pub(crate) struct Guard {
    /// Hash of the token: equal time whatever is compared.
    token: Option<blake3::Hash>,
}

impl Guard {
    pub(crate) fn new(token: Option<&str>) -> Guard {
        Guard { token: token.map(|t| blake3::hash(t.as_bytes())) }
    }

    /// Whether a request may use the API.
    fn check(&self, request: &Request) -> Reply<()> {
        let Some(token) = self.token else { return check_local(request) };
        let value = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let brought = value.and_then(|v| v.strip_prefix("Bearer "));
        // blake3's hashes compare in constant time.
        if brought.is_some_and(|b| blake3::hash(b.trim().as_bytes()) == token) {
            return Ok(());
        }
        let why = "this server needs its token: send `Authorization: Bearer TOKEN`";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, why))
    }
}

/// What anyone may ask for: the page with the photos of its example, the description of the API, and whether the server lives.
const OPEN: [&str; 4] = ["/", "/photos.jpg", "/openapi.json", "/health"];
/// Methods that the server knows. Others are refused before anything is remembered of them.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
/// Most bytes of a path with its query.
const MAX_URI: usize = 4096;
/// Most bytes of all headers: a browser may bring cookies of other servers of this machine.
const MAX_HEADERS: usize = 32 << 10;

/// The outermost layer: what it refuses reaches neither a route nor the counters by route.
pub(crate) async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match admit(&app.guard, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            app.metrics.refused.fetch_add(1, Ordering::Relaxed);
            refusal.into_response()
        }
    }
}

fn admit(guard: &Guard, request: &Request) -> Reply<()> {
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
    check_encoding(request)?;
    check_host(request)?;
    match OPEN.contains(&uri.path()) {
        true => Ok(()),
        false => guard.check(request),
    }
}

/// Refuses a body whose end another server before this one might see elsewhere.
fn check_encoding(request: &Request) -> Reply<()> {
    let mut values = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(()),
        (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Refusal::bad("of transfer encodings only `chunked` is taken, and once")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn a_token_is_asked_for_and_compared_whole() {
        let guard = Guard::new(Some("secret"));
        let with = |value: &str| {
            let request = Request::builder().header(header::AUTHORIZATION, value);
            guard.check(&request.body(Body::empty()).unwrap()).is_ok()
        };
        assert!(with("Bearer secret"));
        for wrong in ["Bearer secre", "Bearer secret1", "Basic secret", "secret", "Bearer "] {
            assert!(!with(wrong), "{wrong}");
        }
        assert!(guard.check(&Request::new(Body::empty())).is_err());
    }

    #[test]
    fn only_one_plain_transfer_encoding_is_taken() {
        let with = |values: &[&str]| {
            let mut request = Request::builder();
            for value in values {
                request = request.header(header::TRANSFER_ENCODING, *value);
            }
            check_encoding(&request.body(Body::empty()).unwrap()).is_ok()
        };
        assert!(with(&[]) && with(&["chunked"]) && with(&["Chunked"]));
        for wrong in [&["chunked", "chunked"][..], &["gzip, chunked"], &["chunked, chunked"], &["identity"]] {
            assert!(!with(wrong), "{wrong:?}");
        }
    }
}
