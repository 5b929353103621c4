//! The names that OLM makes up for the roles of an operator: a hash of what is in them, as Go writes it in JSON.
//!
//! OLM v0 has done so since 0.28, OLM v1 always has. With the names known, the right to change a role can be granted for
//! that role alone.

use serde_json::Value;
use sha2::{Digest, Sha224};

/// The longest name that OLM makes.
const MAX_NAME: usize = 63;

/// The Role, and the RoleBinding, of an entry of `permissions` under OLM v0.
#[must_use]
pub fn v0_role(csv: &str, permission: &Value) -> String {
    let account = permission["serviceAccountName"].as_str().unwrap_or_default();
    let text = format!("{{{}\"permission\":{}}}\n", member("name", csv), go_permission(permission, &[]));
    joined(&format!("{csv}-{account}"), &digits(&text, 62))
}

/// The ClusterRole, and the ClusterRoleBinding, of an entry of `clusterPermissions` under OLM v0.
#[must_use]
pub fn v0_cluster_role(csv: &str, namespace: &str, permission: &Value) -> String {
    let members = format!("{}{}", member("name", csv), member("namespace", namespace));
    let text = format!("{{{members}\"permission\":{}}}\n", go_permission(permission, &[]));
    joined(csv, &digits(&text, 62))
}

/// The role and the binding of an entry of either list under OLM v1, with the rules that OLM adds to it.
#[must_use]
pub fn v1_role(csv: &str, permission: &Value, added: &[Value]) -> String {
    let account = permission["serviceAccountName"].as_str().filter(|name| !name.is_empty()).unwrap_or("default");
    let text = format!("{}\n", go_permission(permission, added));
    joined(&format!("{csv}-{account}"), &digits(&text, 36))
}

/// A name of a base and a suffix, cut where it would be too long.
#[must_use]
pub fn joined(base: &str, suffix: &str) -> String {
    let mut end = base.len();
    if base.len() + suffix.len() > MAX_NAME {
        end = MAX_NAME.saturating_sub(suffix.len() + 1).min(base.len());
        while !base.is_char_boundary(end) {
            end -= 1;
        }
    }
    format!("{}-{suffix}", &base[..end])
}

/// A member that Go leaves out when it is empty.
fn member(key: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{}:{},", go_string(key), go_string(value)) }
}

/// The fields in the order of the Go struct, absent lists as Go has them.
fn go_permission(permission: &Value, added: &[Value]) -> String {
    let account = permission["serviceAccountName"].as_str().unwrap_or_default();
    let rules = match permission["rules"].as_array() {
        None if added.is_empty() => "null".to_owned(),
        rules => {
            let rules: Vec<String> = rules.into_iter().flatten().chain(added).map(go_rule).collect();
            format!("[{}]", rules.join(","))
        }
    };
    format!("{{\"serviceAccountName\":{},\"rules\":{rules}}}", go_string(account))
}

fn go_rule(rule: &Value) -> String {
    let list = |value: &Value| {
        let items: Vec<String> =
            value.as_array().into_iter().flatten().map(|item| go_string(item.as_str().unwrap_or_default())).collect();
        format!("[{}]", items.join(","))
    };
    let verbs = if rule["verbs"].is_array() { list(&rule["verbs"]) } else { "null".to_owned() };
    let mut text = format!("{{\"verbs\":{verbs}");
    for key in ["apiGroups", "resources", "resourceNames", "nonResourceURLs"] {
        if rule[key].as_array().is_some_and(|items| !items.is_empty()) {
            text.push_str(&format!(",\"{key}\":{}", list(&rule[key])));
        }
    }
    text.push('}');
    text
}

/// Go's encoder escapes what HTML would take for markup, too.
fn go_string(text: &str) -> String {
    let json = Value::from(text).to_string();
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out
}

/// The SHA-224 of a text as one number, in the digits of Go's `big.Int`.
fn digits(text: &str, base: u32) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = Sha224::digest(text.as_bytes()).to_vec();
    let mut out = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0;
        for byte in &mut number {
            let value = remainder * 256 + u32::from(*byte);
            *byte = u8::try_from(value / base).unwrap_or_default();
            remainder = value % base;
        }
        out.push(char::from(DIGITS[remainder as usize]));
    }
    out.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn go_writes_absent_lists_as_null_and_leaves_empty_ones_out() {
        let permission =
            json!({"serviceAccountName": "a<b", "rules": [{"apiGroups": [""], "resources": [], "verbs": null}]});
        let written = "{\"serviceAccountName\":\"a\\u003cb\",\"rules\":[{\"verbs\":null,\"apiGroups\":[\"\"]}]}";
        assert_eq!(go_permission(&permission, &[]), written);
        assert_eq!(go_permission(&json!({"rules": null}), &[]), "{\"serviceAccountName\":\"\",\"rules\":null}");
    }

    #[test]
    fn a_name_is_never_too_long() {
        let name = joined(&"x".repeat(100), "abc");
        assert_eq!(name.len(), MAX_NAME);
        assert!(name.ends_with("-abc"));
    }
}
