//! Exports the thread-local variable of OpenTelemetry's thread context.
//!
//! A cdylib exports Rust's own symbols only. A second version script adds to that list; the linker
//! that comes with Rust merges the two.

fn main() {
    println!("cargo:rerun-if-changed=exports.map");
    println!("cargo:rerun-if-changed=build.rs");
    let is = |what: &str, wanted: &str| {
        std::env::var(format!("CARGO_CFG_TARGET_{what}")).is_ok_and(|value| value == wanted)
    };
    if is("OS", "linux") {
        // The runtime unloads a profiler that it has let go; a thread may still be about to return
        // from our handler, and tracers keep addresses.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    if is("OS", "linux") && is("ARCH", "x86_64") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={folder}/exports.map");
    }
}
