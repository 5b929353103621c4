//! Names: which ones an object can have, and which ones can be looked up.

/// Whether this can be the name of an object: a DNS subdomain.
#[must_use]
pub fn is_object_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Whether no object can have this name, by the rules of the API server.
#[must_use]
pub(crate) fn is_no_name(name: &str) -> bool {
    matches!(name, "" | "." | "..") || name.contains(['/', '%'])
}

/// Whether a name is safe in a URL as it is. The host puts names into paths unescaped, and roles may have almost any
/// name: `cluster-admin?x` would look up cluster-admin.
#[must_use]
pub fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,;=".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::{is_no_name, is_plain};

    #[test]
    fn a_name_never_leads_out_of_its_path() {
        for name in ["installer", "system:auth-delegator", "a.b-c", "me@example.com"] {
            assert!(is_plain(name) && !is_no_name(name), "{name}");
        }
        for name in ["", ".", "..", "../secrets/x", "a/b", "a%2fb"] {
            assert!(is_no_name(name), "{name}");
        }
        for name in ["cluster-admin?x", "cluster-admin#x", "a b", "ä"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
