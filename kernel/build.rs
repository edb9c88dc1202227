//! Hands the linker script of the architecture to the linker, and the
//! compiler's version to the image, which names it in benchmark results.

use std::{env, process::Command};

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let bare = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none");
    if bare {
        let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        let script = format!("{root}/../boot/link/{arch}.ld");
        println!("cargo:rerun-if-changed={script}");
        println!("cargo:rustc-link-arg-bins=-T{script}");
        // Pages of the image are 4 KiB, on both architectures.
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo:rustc-link-arg-bins=--no-dynamic-linker");
    }
    let rustc = env::var("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.unwrap_or("unknown".into());
    println!("cargo:rustc-env=SPINDLE_COMPILER={}", version.trim());
    println!("cargo:rerun-if-env-changed=RUSTC");
}
