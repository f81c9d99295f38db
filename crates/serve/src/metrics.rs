//! Counters in the text format of Prometheus.

use crate::App;
use crate::error::Cause;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Upper ends of the histogram of times, in seconds.
const EDGES: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Default, Clone)]
struct Times {
    counts: [u64; EDGES.len()],
    sum: f64,
    count: u64,
}

/// A method and a route of ours: their number is bounded, whatever is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    method: &'static str,
    path: String,
}

impl Route {
    fn of(request: &Request) -> Route {
        let method = match *request.method() {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            Method::OPTIONS => "OPTIONS",
            _ => "OTHER",
        };
        // Paths that match no route share one name.
        let path = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
        Route { method, path: path.into() }
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// All counters of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(Route, u16), u64>>,
    times: Mutex<BTreeMap<Route, Times>>,
    under_way: AtomicI64,
    /// Requests that the guard refused.
    pub refused: AtomicU64,
    /// Images answered.
    pub predictions: AtomicU64,
    /// Images that could not be read.
    pub bad_images: AtomicU64,
}

impl Metrics {
    fn finish(&self, route: Route, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        // A poisoned lock means that another thread panicked between two additions; the counts are still counts.
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.clone(), status)).or_default() += 1;
        drop(requests);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let times = times.entry(route).or_default();
        for (count, edge) in times.counts.iter_mut().zip(EDGES) {
            *count += u64::from(seconds <= edge);
        }
        times.sum += seconds;
        times.count += 1;
    }

    /// Everything as text.
    pub(crate) fn text(&self, tasks: usize) -> String {
        let mut out = String::new();
        let head =
            |name: &str, kind: &str, help: &str| format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        out += &head("siskin_requests_total", "counter", "Requests answered, by route and status.");
        for ((route, status), count) in &requests {
            let _ = writeln!(out, "siskin_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        out += &head("siskin_request_seconds", "histogram", "Time from the head of a request to its answer.");
        for (route, times) in &times {
            for (count, edge) in times.counts.iter().zip(EDGES) {
                let _ =
                    writeln!(out, "siskin_request_seconds_bucket{{route=\"{route}\",le=\"{edge}\"}} {count}");
            }
            let Times { sum, count, .. } = times;
            let _ = writeln!(out, "siskin_request_seconds_bucket{{route=\"{route}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "siskin_request_seconds_sum{{route=\"{route}\"}} {sum}");
            let _ = writeln!(out, "siskin_request_seconds_count{{route=\"{route}\"}} {count}");
        }
        let plain = [
            (
                "siskin_requests_under_way",
                "gauge",
                "Requests that are not answered yet.",
                self.under_way.load(Ordering::Relaxed).max(0) as u64,
            ),
            ("siskin_tasks", "gauge", "Tasks held.", tasks as u64),
            (
                "siskin_refused_total",
                "counter",
                "Requests refused before any route: no token, a foreign host or origin, an unknown method.",
                self.refused.load(Ordering::Relaxed),
            ),
            (
                "siskin_predictions_total",
                "counter",
                "Images answered.",
                self.predictions.load(Ordering::Relaxed),
            ),
            (
                "siskin_bad_images_total",
                "counter",
                "Images that could not be read.",
                self.bad_images.load(Ordering::Relaxed),
            ),
        ];
        for (name, kind, help, value) in plain {
            out += &head(name, kind, help);
            let _ = writeln!(out, "{name} {value}");
        }
        out
    }
}

/// Counts a request that is under way, also if its connection is lost.
struct UnderWay<'a>(&'a AtomicI64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The layer around all routes, within the guard.
pub(crate) async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = Route::of(&request);
    app.metrics.under_way.fetch_add(1, Ordering::Relaxed);
    let _under_way = UnderWay(&app.metrics.under_way);
    let start = Instant::now();
    let response = next.run(request).await;
    if let Some(Cause(cause)) = response.extensions().get() {
        (app.complain)(cause);
    }
    app.metrics.finish(route, response.status().as_u16(), start.elapsed());
    response
}
