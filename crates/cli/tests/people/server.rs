//! A server of its own for each test, and requests to it.

use crate::drawings::drawing;
use crate::support::{siskin, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub(crate) fn start(args: &[&str], at: &Path) -> Server {
        Server::of(siskin(&[&["serve", "--port", "0", "--state", "state"], args].concat(), at))
    }

    /// A server that `command` starts.
    pub(crate) fn of(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|l| l.contains("http://"))).unwrap();
        let address = line.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        Server { child, address }
    }

    /// The number of its process.
    #[cfg(unix)]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended by itself.
    #[cfg(unix)]
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn ask(&self, method: &str, path: &str, extra: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n{extra}\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = text(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn json(&self, method: &str, path: &str, extra: &str, body: &[u8]) -> (u16, Value) {
        let (status, body) = self.ask(method, path, extra, body);
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two labelled drawings of each of two classes as a form.
pub(crate) fn form() -> Vec<u8> {
    let mut body = String::new();
    for (class, kind) in [("cross", 0), ("ring", 1)] {
        for shift in 0..2 {
            write!(
                body,
                "--XX\r\nContent-Disposition: form-data; name=\"{class}\"; filename=\"{shift}.pgm\"\r\n\r\n{}\r\n",
                drawing(kind, shift)
            )
            .unwrap();
        }
    }
    (body + "--XX--\r\n").into_bytes()
}

pub(crate) const FORM: &str = "Content-Type: multipart/form-data; boundary=XX\r\n";
pub(crate) const IMAGE: &str = "Content-Type: image/x-portable-graymap\r\n";
