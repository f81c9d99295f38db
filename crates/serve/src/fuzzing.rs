//! Entry point for bodies that nobody has looked at: it must return, whatever it is given.

use crate::{body, handlers};
use bytes::Bytes;

/// The first byte chooses what the body is said to be: a form, the JSON of a new task, the JSON of a question. Images in it are
/// decoded.
pub fn body(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else { return };
    let images: Vec<Bytes> = match kind % 3 {
        0 => {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let Ok(runtime) = runtime else { return };
            let parts = runtime.block_on(body::parts(Bytes::copy_from_slice(content), "XX", 100));
            parts.map(|parts| parts.into_iter().map(|part| part.bytes).collect()).unwrap_or_default()
        }
        1 => handlers::images_of_task(content),
        _ => handlers::images_of_question(content),
    };
    for image in images.iter().take(8) {
        let _ = siskin_data::image::decode::decode(image, Some(16));
    }
}
