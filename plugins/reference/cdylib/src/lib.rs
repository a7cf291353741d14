//! The reference executor as a plugin file: what the loader's tests open. The host itself links it and needs no file.

thunderhead_sdk::export_plugin! { manifest: thunderhead_reference::MANIFEST, entry: thunderhead_reference::entry }
