//! What can go wrong: when the server starts, and with a request.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::path::PathBuf;

/// Why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Anyone who reaches the machine could use it.
    #[error(
        "{address} can be reached from other machines: give a token with --token-file or SISKIN_TOKEN, or listen on \
         127.0.0.1"
    )]
    TokenNeeded {
        /// The address asked for.
        address: std::net::SocketAddr,
    },
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder or file of tasks cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Threads or signals are refused by the system.
    #[error("the server cannot run: {0}")]
    Runtime(std::io::Error),
    /// A model or a task reports an error.
    #[error(transparent)]
    Adapt(#[from] siskin_adapt::Error),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An answer that is no success: a status and a sentence.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub message: String,
    /// What happened on our side: for those who run the server, not for its clients.
    pub cause: Option<String>,
}

pub(crate) type Reply<T> = std::result::Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, message: message.into(), cause: None }
    }

    /// Something failed on our side. Clients learn what failed; the cause, which may name paths, goes to those who run the
    /// server.
    pub(crate) fn failure(what: &str, cause: impl std::fmt::Display) -> Refusal {
        let message = format!("{what} failed; those who run the server can see why");
        Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message,
            cause: Some(format!("{what}: {cause}")),
        }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }
}

impl From<siskin_adapt::ModelError> for Refusal {
    fn from(error: siskin_adapt::ModelError) -> Refusal {
        siskin_adapt::Error::from(error).into()
    }
}

impl From<siskin_adapt::Error> for Refusal {
    /// What a person can fix is theirs (422); files of the server are ours (500).
    fn from(error: siskin_adapt::Error) -> Refusal {
        use siskin_adapt::Error as E;
        match error {
            E::Support(_) | E::Rules(_) | E::Gp(_) | E::Calib(_) => {
                Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
            E::Stopped => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            _ => Refusal::failure("the work", error),
        }
    }
}

/// What happened on our side, beside an answer that does not say it.
#[derive(Debug, Clone)]
pub(crate) struct Cause(pub String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = axum::Json(serde_json::json!({ "error": self.message }));
        let mut response = (self.status, body).into_response();
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(Cause(cause));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // After a body that was not read to its end the connection is of no use.
        if matches!(self.status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
