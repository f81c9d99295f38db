//! From a request's body to labelled images or queries: JSON with base64, multipart, or one image as it is.

use crate::App;
use crate::error::{Refusal, Reply};
use crate::peer::Peer;
use crate::room::Claim;
use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long the rest of a body that is too large is read.
const PATIENCE: Duration = Duration::from_secs(2);

/// A body in memory, with its room in the budget.
pub(crate) struct Read {
    pub peer: Peer,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    pub room: Claim,
}

/// Reads the body of a request: bounded in size, in time and together with all others.
pub(crate) async fn read(app: &App, request: Request) -> Reply<Read> {
    let (parts, body) = request.into_parts();
    let most = app.limits.max_body;
    let too_large =
        || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body may have at most {most} bytes"));
    let length =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|l| l > most) {
        return Err(too_large());
    }
    let peer = parts.extensions.get().copied().unwrap_or_default();
    let mut room = app.bodies.begin(peer);
    let collected = tokio::time::timeout(app.limits.read_timeout, collect(body, &mut room, most));
    let slow = |_| {
        let why = format!("the body took longer than {} s to arrive", app.limits.read_timeout.as_secs());
        Refusal::new(StatusCode::REQUEST_TIMEOUT, why)
    };
    let bytes = match collected.await.map_err(slow)? {
        Collected::Whole(bytes) => bytes,
        Collected::TooLarge(rest) => {
            drop(room);
            drain(rest, most).await;
            return Err(too_large());
        }
        Collected::Refused(refusal) => return Err(refusal),
    };
    room.whole();
    Ok(Read { peer, headers: parts.headers, bytes, room })
}

enum Collected {
    Whole(Bytes),
    TooLarge(BodyDataStream),
    Refused(Refusal),
}

async fn collect(body: Body, room: &mut Claim, most: usize) -> Collected {
    let mut all = Vec::new();
    let mut stream = body.into_data_stream();
    loop {
        let piece = tokio::select! {
            piece = stream.next() => piece,
            refusal = room.given_up() => return Collected::Refused(refusal),
        };
        match piece {
            None => return Collected::Whole(all.into()),
            Some(Err(e)) => {
                return Collected::Refused(Refusal::bad(format!("the body ended early: {e}")));
            }
            Some(Ok(piece)) if all.len() + piece.len() > most => return Collected::TooLarge(stream),
            Some(Ok(piece)) => {
                if let Err(refusal) = room.grow_to(all.len() + piece.len()).await {
                    return Collected::Refused(refusal);
                }
                all.extend_from_slice(&piece);
            }
        }
    }
}

/// Reads the rest of a body that is too large, and forgets it: most clients read the answer only after they have sent
/// everything, and would find a closed connection. After [`PATIENCE`] or `most` bytes more they are not waited for.
async fn drain(mut rest: BodyDataStream, most: usize) {
    let mut heard = 0;
    let all = async {
        while let Some(Ok(piece)) = rest.next().await {
            heard += piece.len();
            if heard > most {
                break;
            }
        }
    };
    // The answer is the same whether they came to an end or not.
    tokio::time::timeout(PATIENCE, all).await.ok();
}

/// What a body is said to be.
pub(crate) enum Kind {
    Json,
    Multipart(String),
    Image,
}

/// By its content type.
pub(crate) fn kind(headers: &HeaderMap) -> Reply<Kind> {
    let content = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let essence = content.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => Ok(Kind::Json),
        "multipart/form-data" => multer::parse_boundary(content)
            .map(Kind::Multipart)
            .map_err(|e| Refusal::bad(format!("the content type names no boundary: {e}"))),
        image if image.starts_with("image/") => Ok(Kind::Image),
        _ => {
            let why = "the content type must be application/json, multipart/form-data or image/*";
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        }
    }
}

/// Seconds that a body takes to be parsed as JSON, roughly.
pub(crate) fn seconds(bytes: &[u8]) -> f64 {
    5e-9 * bytes.len() as f64
}

/// Most strings in a body of JSON, names and keys included. An image has at most one; a body of empty ones would unfold to ten times
/// its size before they could be counted as images.
const MOST_STRINGS: usize = 200_000;

/// A body as JSON of a known shape.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Reply<T> {
    if bytes.iter().filter(|byte| **byte == b'"').count() > 2 * MOST_STRINGS {
        return Err(Refusal::bad(format!("the JSON has more than {MOST_STRINGS} names and images")));
    }
    serde_json::from_slice(bytes).map_err(|e| Refusal::bad(format!("the JSON cannot be used: {e}")))
}

/// An image in JSON: base64, as it is or as a `data:` address.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Encoded(String);

impl Encoded {
    pub(crate) fn bytes(&self) -> Reply<Bytes> {
        let text = match self.0.starts_with("data:") {
            true => self.0.split_once(',').map_or("", |(_, data)| data),
            false => &self.0,
        };
        base64::engine::general_purpose::STANDARD
            .decode(text.trim())
            .map(Bytes::from)
            .map_err(|e| Refusal::bad(format!("an image is not base64: {e}")))
    }
}

/// A part of a form.
pub(crate) struct Part {
    /// Name of the field.
    pub field: String,
    /// Name of the file, where it has one.
    pub file: Option<String>,
    pub bytes: Bytes,
}

/// The parts of a multipart body, at most `most`. To be asked for in a turn: a form of many megabytes takes its time.
pub(crate) fn parts(bytes: Bytes, boundary: &str, most: usize) -> Reply<Vec<Part>> {
    // All of it is there: nothing is waited for.
    let parts = read_parts(bytes, boundary, most).now_or_never();
    parts.unwrap_or_else(|| Err(Refusal::bad("the form cannot be read")))
}

async fn read_parts(bytes: Bytes, boundary: &str, most: usize) -> Reply<Vec<Part>> {
    let whole = futures_util::stream::once(async move { Ok::<_, std::io::Error>(bytes) });
    let mut form = multer::Multipart::new(whole, boundary);
    let broken = |e: multer::Error| Refusal::bad(format!("the form cannot be read: {e}"));
    let mut parts = Vec::new();
    while let Some(field) = form.next_field().await.map_err(broken)? {
        if parts.len() == most {
            return Err(Refusal::bad(format!("the form has more than {most} parts")));
        }
        let name = field.name().unwrap_or_default().to_owned();
        let file = field.file_name().map(str::to_owned);
        parts.push(Part { field: name, file, bytes: field.bytes().await.map_err(broken)? });
    }
    Ok(parts)
}
