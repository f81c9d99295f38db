//! `siskin serve`: an HTTP server and its web page.

use crate::compute::DeviceArg;
use anyhow::Context;
use siskin_adapt::EMBEDDED;
use siskin_adapt::foreign::Registry;
use siskin_serve::{Limits, Options};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Most bytes of a token file.
const MOST_TOKEN: u64 = 4_096;

/// Arguments of `siskin serve`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  siskin serve                                   then open http://127.0.0.1:8080
  siskin serve --model birds.safetensors --port 9000
  SISKIN_TOKEN=secret siskin serve --host 0.0.0.0   reachable from other machines: needs a token

  curl -F A=@a1.png -F A=@a2.png -F B=@b1.png http://127.0.0.1:8080/v1/tasks
  curl -H 'Content-Type: image/png' --data-binary @what.png http://127.0.0.1:8080/v1/tasks/ID/predict

The API is described at /openapi.json and in docs/serving.md. Ctrl-C finishes the requests under way and stops.")]
pub(crate) struct Args {
    /// The address to listen on. Any but loopback needs a token
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// A run folder, an exported model file or an added network. May be given several times; the first is used where a request names
    /// none [default: the embedded model that suits what the images look like]. The embedded models and all
    /// added networks are always there too
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Folder where tasks are kept [default: the folder for program data of this system]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// The token that requests must bring, better given by this variable than on the command line
    #[arg(long, value_name = "TOKEN", env = "SISKIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Megabytes of one request, at most
    #[arg(long, value_name = "MB", default_value_t = (Limits::default().max_body >> 20) as u32,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_body: u32,
    /// Megapixels of one image, at most
    #[arg(long, value_name = "MP", default_value_t = (Limits::default().max_pixels / 1_000_000) as u32,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_megapixels: u32,
    /// Megapixels of all images of one request, at most
    #[arg(long, value_name = "MP", default_value_t = (Limits::default().request_pixels / 1_000_000) as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_request_megapixels: u32,
    /// Megabytes for images that are being decoded, of all requests together; a larger one is decoded alone
    #[arg(long, value_name = "MB", default_value_t = (Limits::default().decode_budget / 1_000_000) as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_decode_memory: u32,
    /// Images of one request, at most
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().max_images as u32,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_images: u32,
    /// Tasks, at most
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().max_tasks as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_tasks: u32,
    /// Seconds a request may take to arrive
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().read_timeout.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    read_timeout: u64,
    /// Megabytes of all tasks, at most
    #[arg(long, value_name = "MB", default_value_t = (Limits::default().task_memory >> 20) as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_task_memory: u32,
    /// Connections open at the same time, at most; for a further one, the one that has kept us waiting longest is closed
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().max_connections as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Connections of one client address, at most
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().max_peer_connections as u32,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_peer_connections: u32,
    /// Seconds in which a client must begin to take its answer
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().write_timeout.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    write_timeout: u64,
    /// Seconds for requests that are under way when the server is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().shutdown_grace.as_secs(),
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    grace: u64,
    /// Seconds the work of a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().work_timeout.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    work_timeout: u64,
    #[command(flatten)]
    device: DeviceArg,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let token = match &args.token_file {
        None => args.token,
        Some(path) => {
            let read = || {
                String::from_utf8(siskin_data::files::read(path, MOST_TOKEN)?).map_err(std::io::Error::other)
            };
            let text = read().with_context(|| format!("cannot read the token file {}", path.display()))?;
            Some(text.trim().to_owned())
        }
    };
    anyhow::ensure!(token.as_deref() != Some(""), "The token is empty.");
    let state = args.state.or_else(default_state);
    let (choose, mut models) = (args.models.is_empty(), args.models);
    for (embedded, _) in EMBEDDED {
        if !models.iter().any(|model| model == embedded) {
            models.push(embedded.to_owned());
        }
    }
    // They are computed by the CPU alone.
    let offered = match args.device.is_cpu() {
        true => Registry::default_folder().map_or(Vec::new(), |registry| registry.names()),
        false => Vec::new(),
    };
    let options = Options {
        address: SocketAddr::new(args.host, args.port),
        token,
        models,
        offered,
        choose,
        device: args.device.choice(),
        state: Some(
            state.context("This system names no folder for program data. Give one with --state FOLDER.")?,
        ),
        limits: Limits {
            max_body: (args.max_body as usize) << 20,
            max_pixels: u64::from(args.max_megapixels) * 1_000_000,
            request_pixels: u64::from(args.max_request_megapixels) * 1_000_000,
            decode_budget: u64::from(args.max_decode_memory) * 1_000_000,
            max_images: args.max_images as usize,
            max_tasks: args.max_tasks as usize,
            read_timeout: Duration::from_secs(args.read_timeout),
            work_timeout: Duration::from_secs(args.work_timeout),
            write_timeout: Duration::from_secs(args.write_timeout),
            shutdown_grace: Duration::from_secs(args.grace),
            task_memory: u64::from(args.max_task_memory) << 20,
            max_connections: args.max_connections as usize,
            max_peer_connections: args.max_peer_connections as usize,
            ..Limits::default()
        },
    };
    let ready = |ready: &siskin_serve::Ready| {
        ready.notes.iter().for_each(|note| tell!("note: {note}"));
        say!("Models: {}. Tasks found: {}.", ready.models.join(", "), ready.tasks);
        say!("Listening on http://{} (Ctrl-C stops it).", ready.address);
    };
    siskin_serve::run(&options, crate::stop::requested, ready, |cause| tell!("error: {cause}"))?;
    say!("Stopped.");
    Ok(())
}

/// The folder for program data of this system.
fn default_state() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = |below: &str| variable("HOME").map(|home| home.join(below));
    let data = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home("Library/Application Support")
    } else {
        variable("XDG_STATE_HOME").or_else(|| home(".local/state"))
    };
    data.map(|folder| folder.join("siskin").join("tasks"))
}
