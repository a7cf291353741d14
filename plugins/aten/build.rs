//! Compiles the C++ side against the libtorch that `torch-sys` has found.

use std::path::Path;

fn main() {
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("the build of torch-sys says where libtorch lies");
    let include = Path::new(&lib).parent().expect("libtorch's `lib` lies in a folder").join("include");
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    println!("cargo:rerun-if-env-changed=LIBTORCH_USE_PYTORCH");
    println!("cargo:rerun-if-env-changed=LIBTORCH_CXX11_ABI");
    let cxx11_abi = std::env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".into());
    cc::Build::new()
        .cpp(true)
        .pic(true)
        .std("c++20")
        .flag("-fopenmp")
        // libtorch's headers have warnings of their own.
        .flag(format!("-isystem{}", include.display()))
        .flag(format!("-D_GLIBCXX_USE_CXX11_ABI={cxx11_abi}"))
        // The dispatch path runs at every step, in test builds too.
        .opt_level(2)
        .warnings(true)
        .flag_if_supported("-Wno-unused-parameter")
        .file("shim/tape.cpp")
        .compile("thunderhead_tape");
    for library in ["torch_cpu", "c10", "gomp"] {
        println!("cargo:rustc-link-lib={library}");
    }
    println!("cargo:rustc-link-search=native={lib}");
    // The plugins' own builds read it as `DEP_THUNDERHEAD_TAPE_LIB`.
    println!("cargo:lib={lib}");
}
