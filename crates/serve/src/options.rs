//! What can be chosen about a server.

use siskin_adapt::DeviceChoice;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How to serve.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// What requests must bring as `Authorization: Bearer`; needed as soon as `address` is not loopback.
    pub token: Option<String>,
    /// Models by path or name.
    pub models: Vec<String>,
    /// Added networks that are offered too, loaded when they are first used; one that cannot be offered is named and left out.
    pub offered: Vec<String>,
    /// Whether a task that names no model gets the first of them that suits what its images look like; else the first.
    pub choose: bool,
    /// What computes their networks.
    pub device: DeviceChoice,
    /// Folder of task files; without one, tasks end with the server.
    pub state: Option<PathBuf>,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds on what requests may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes of one body.
    pub max_body: usize,
    /// Bytes of all bodies that are in memory at the same time, beside the first 64 kB of each.
    pub body_budget: usize,
    /// Bytes of one answer, as predicted from the classes of its task and the number of images.
    pub max_answer: usize,
    /// Bytes of all answers that are being made or sent at the same time, beside small ones.
    pub answer_budget: usize,
    /// Pixels of one image, by its header.
    pub max_pixels: u64,
    /// Pixels of all images of one request, by their headers.
    pub request_pixels: u64,
    /// Bytes for images that are being decoded, of all requests together.
    pub decode_budget: u64,
    /// Images of one request.
    pub max_images: usize,
    /// What the fit of a new task may cost, by its numbers of classes and examples.
    pub fit: siskin_adapt::FitLimits,
    /// Tasks that are held.
    pub max_tasks: usize,
    /// Bytes of all tasks that are held.
    pub task_memory: u64,
    /// Connections open at the same time; for a further one, the one that keeps us waiting longest is closed.
    pub max_connections: usize,
    /// The same for one client address.
    pub max_peer_connections: usize,
    /// Time for the head of a request, and for its body.
    pub read_timeout: Duration,
    /// Time in which a client must begin to take its answer.
    pub write_timeout: Duration,
    /// Time for the work of a request, its wait for a free core included.
    pub work_timeout: Duration,
    /// Time for requests that are under way when the server is told to stop.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    /// 32 MB per body, 256 MB of bodies, 64 MB per answer, 256 MB of answers, 25 megapixels per image, 500 images and 250 megapixels per
    /// request, 384 MB for images that are being decoded, 20 s and 512 MB per fit, 1,000 tasks of 1 GB together, 2,048 connections,
    /// 1,024 of one client.
    fn default() -> Self {
        Limits {
            max_body: 32 << 20,
            body_budget: 256 << 20,
            max_answer: 64 << 20,
            answer_budget: 256 << 20,
            max_pixels: 25_000_000,
            request_pixels: 250_000_000,
            decode_budget: 384_000_000,
            max_images: 500,
            fit: siskin_adapt::FitLimits { seconds: 20.0, bytes: 512e6 },
            max_tasks: 1_000,
            task_memory: 1 << 30,
            max_connections: 2_048,
            max_peer_connections: 1_024,
            read_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(10),
            work_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}
