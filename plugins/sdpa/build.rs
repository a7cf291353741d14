//! Lets the tests find libtorch. In the host, libtorch is opened before the plugin; the plugin itself names no folder.

fn main() {
    let lib = std::env::var("DEP_THUNDERHEAD_TAPE_LIB")
        .expect("the build of thunderhead-aten says where libtorch lies");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{lib}");
}
