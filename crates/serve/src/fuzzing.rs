//! Entry point for bodies that nobody has looked at: it must return, whatever it is given.

use crate::origin::{check_host, check_local};
use crate::{body, handlers};
use axum::http::{HeaderValue, header};
use bytes::Bytes;

/// The first byte chooses what the body is said to be: a form, the JSON of a new task, of a question, of images to choose from or of
/// more examples; images in it are decoded. Or it is three lines of headers that say where a request comes from.
pub fn body(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else { return };
    let images: Vec<Bytes> = match kind % 6 {
        0 => {
            let parts = body::parts(Bytes::copy_from_slice(content), "XX", 100);
            parts.map(|parts| parts.into_iter().map(|part| part.bytes).collect()).unwrap_or_default()
        }
        1 => handlers::images_of_task(content),
        2 => handlers::images_of_question(content),
        3 => handlers::images_of_pool(content),
        4 => handlers::images_of_more(content),
        _ => return origin(content),
    };
    for image in images.iter().take(8) {
        siskin_data::fuzzing::image(image);
    }
}

/// Lines of `Host`, `Origin` and `Sec-Fetch-Site`.
fn origin(lines: &[u8]) {
    let mut request = axum::extract::Request::new(axum::body::Body::empty());
    let names = [header::HOST, header::ORIGIN, header::HeaderName::from_static("sec-fetch-site")];
    for (name, line) in names.into_iter().zip(lines.split(|byte| *byte == b'\n')) {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            request.headers_mut().append(name, value);
        }
    }
    let _ = (check_host(&request), check_local(&request));
}
