//! The list for programs: CycloneDX 1.6 in JSON (ECMA-424), which scanners for known
//! weaknesses read.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Bill, Crate, crates::Key};
use crate::source::Source;

impl Bill {
    /// Returns the list, for something to ship with that digest, such as the binary.
    pub fn sbom(&self, source: &Source, sha256: &str) -> Result<String> {
        let own = &self.crates[0];
        let mut subject = component("application", own);
        subject["hashes"] = hashes(sha256);
        let standard_library = json!({
            "type": "library",
            "bom-ref": "rust-std",
            "name": "rust-std",
            "version": self.compiler,
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        });
        let others = self.crates[1..].iter().map(|found| component("library", found));
        let components: Vec<Value> = others.chain([standard_library]).collect();
        let dependencies: Vec<Value> = self
            .crates
            .iter()
            .map(|found| {
                let mut on: Vec<String> = found.uses.iter().map(reference).collect();
                if found.name == own.name {
                    on.push("rust-std".to_owned());
                }
                json!({ "ref": reference(&found.key()), "dependsOn": on })
            })
            .collect();
        let list = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": source.time.to_string(),
                "component": subject,
            },
            "components": components,
            "dependencies": dependencies,
        });
        Ok(format!("{}\n", serde_json::to_string_pretty(&list)?))
    }
}

fn component(kind: &str, found: &Crate) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(&found.key()),
        "name": found.name,
        "version": found.version,
        "licenses": [{ "expression": found.licence }],
    });
    if let Some(sha256) = &found.sha256 {
        component["purl"] = reference(&found.key()).into();
        component["hashes"] = hashes(sha256);
    }
    if let Some(repository) = &found.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

/// Returns the package URL of a crate, which others know it by.
fn reference((name, version): &Key) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn hashes(sha256: &str) -> Value {
    json!([{ "alg": "SHA-256", "content": sha256 }])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_listed_hangs_together() {
        let bill = Bill::of("x86_64-unknown-linux-musl").unwrap();
        let bill = bill.with("webpki-root-certs").unwrap();
        let time = "2026-01-02T03:04:05Z".parse().unwrap();
        let source = Source { revision: None, time, maintainer: None };
        let list: Value = serde_json::from_str(&bill.sbom(&source, "00").unwrap()).unwrap();
        assert_eq!(list["metadata"]["timestamp"], "2026-01-02T03:04:05Z");
        let own = &list["metadata"]["component"];
        assert_eq!((&own["name"], &own["hashes"][0]["content"]), (&"wad".into(), &"00".into()));

        let components = list["components"].as_array().unwrap();
        let known: BTreeSet<&str> =
            components.iter().chain([own]).map(|one| one["bom-ref"].as_str().unwrap()).collect();
        assert_eq!(known.len(), components.len() + 1, "a reference is there once");
        let mut reached = BTreeSet::new();
        for one in list["dependencies"].as_array().unwrap() {
            assert!(known.contains(one["ref"].as_str().unwrap()));
            reached.extend(one["dependsOn"].as_array().unwrap().iter().filter_map(Value::as_str));
        }
        let all_but_itself = &known - &BTreeSet::from([own["bom-ref"].as_str().unwrap()]);
        assert_eq!(reached, all_but_itself);
        let tokio = components.iter().find(|one| one["name"] == "tokio").unwrap();
        assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert_eq!(tokio["licenses"][0]["expression"], "MIT");
    }
}
