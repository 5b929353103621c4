//! The rooms of the crate only look down: reading knows nothing of rules, rules know nothing of OLM, and nothing that decides
//! knows where a request comes from.

// A test that cannot go on fails.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

/// Each room, and those it may use besides itself.
const ROOMS: [(&str, &[&str]); 5] = [
    ("read", &[]),
    ("rbac", &["read"]),
    ("olm", &["read", "rbac"]),
    ("decide", &["cluster", "olm", "rbac", "read", "settings"]),
    ("judge", &["admission", "cluster", "decide", "olm", "rbac", "read", "settings"]),
];

#[test]
fn rooms_only_look_down() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for (room, allowed) in ROOMS {
        for entry in fs::read_dir(source.join(room)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            for used in
                text.split("crate::").skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap())
            {
                seen += 1;
                assert!(used == room || allowed.contains(&used), "{}: uses crate::{used}", path.display());
            }
        }
    }
    assert!(seen > 200, "only {seen} uses were found");
}
