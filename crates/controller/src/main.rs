//! The companion controller.
fn main() {}
