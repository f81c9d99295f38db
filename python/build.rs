//! The linker arguments of an extension module: macOS leaves Python's symbols open only when told so.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
