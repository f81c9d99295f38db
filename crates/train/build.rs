//! What this build is made of, for the record of a run: target, compiler, and the version of Burn in the lock file.

use std::process::Command;

fn main() {
    let lock = "../../Cargo.lock";
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={lock}");
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".into());
    let rustc = std::env::var("RUSTC").ok().and_then(|rustc| {
        let output = Command::new(rustc).arg("--version").output().ok()?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
    });
    let burn = std::fs::read_to_string(lock).ok().and_then(|lock| {
        let entry = lock.split("[[package]]").find(|entry| entry.contains("\nname = \"burn-core\"\n"))?;
        let version = entry.lines().find_map(|line| line.strip_prefix("version = "))?;
        Some(version.trim_matches('"').to_string())
    });
    println!("cargo:rustc-env=SISKIN_TARGET={}", or_unknown(std::env::var("TARGET").ok()));
    println!("cargo:rustc-env=SISKIN_RUSTC={}", or_unknown(rustc));
    println!("cargo:rustc-env=SISKIN_BURN={}", or_unknown(burn));
}
