//! An OCI image layout (image-spec 1.1) in one tar file: what `skopeo` calls an
//! oci-archive, and what `ctr images import` and `podman load` take.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    source::Source,
    tree::{Tree, gzip, sha256},
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Annotations and labels: what an image says of itself, by the names of image-spec.
pub type Annotations = BTreeMap<&'static str, String>;

/// The name that an image is known by.
pub struct Name<'a> {
    /// With the host of its registry: nodes know no other names.
    pub name: &'a str,
    pub tag: &'a str,
}

/// The images, and all that they are of.
pub struct Layout {
    annotations: Annotations,
    /// By their digests.
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: Vec<Value>,
}

impl Layout {
    /// Begins one without images, which all will bear the annotations.
    pub fn new(annotations: Annotations) -> Self {
        Self { annotations, blobs: BTreeMap::new(), manifests: Vec::new() }
    }

    /// Adds an image of one layer for a machine, by Go's name for that; `config` is what
    /// runtimes are told.
    pub fn image(
        &mut self,
        machine: &str,
        mut config: Value,
        files: &Tree,
        source: &Source,
    ) -> Result<()> {
        let tar = files.tar(source.seconds())?;
        let unpacked = format!("sha256:{}", sha256(&tar));
        let layer = self.blob(LAYER, gzip(&tar)?);
        let created = source.time.to_string();
        config["Labels"] = json!(self.annotations);
        let configuration = self.json(
            CONFIGURATION,
            &json!({
                "created": created,
                "architecture": machine,
                "os": "linux",
                "config": config,
                "rootfs": { "type": "layers", "diff_ids": [unpacked] },
                "history": [{ "created": created, "created_by": "cargo xtask image" }],
            }),
        )?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": configuration,
            "layers": [layer],
            "annotations": self.annotations,
        });
        let mut manifest = self.json(MANIFEST, &manifest)?;
        manifest["platform"] = json!({ "architecture": machine, "os": "linux" });
        self.manifests.push(manifest);
        Ok(())
    }

    /// Returns all of it as a tar file. The name stands on the one image, or on the index
    /// of several, by which a runtime finds its own machine's.
    pub fn archive(mut self, name: &Name, seconds: u64) -> Result<Vec<u8>> {
        let mut named = match &self.manifests[..] {
            [only] => only.clone(),
            several => {
                let index = json!({
                    "schemaVersion": 2,
                    "mediaType": INDEX,
                    "manifests": several,
                    "annotations": self.annotations,
                });
                self.json(INDEX, &index)?
            }
        };
        let Name { name, tag } = name;
        named["annotations"] = json!({
            "org.opencontainers.image.ref.name": tag,
            // containerd imports it by this one.
            "io.containerd.image.name": format!("{name}:{tag}"),
        });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named] });

        let mut tree = Tree::default();
        tree.file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
        tree.file("index.json", serde_json::to_vec(&index)?);
        for (digest, bytes) in self.blobs {
            tree.file(&format!("blobs/sha256/{digest}"), bytes);
        }
        tree.tar(seconds)
    }

    fn json(&mut self, media_type: &str, value: &Value) -> Result<Value> {
        Ok(self.blob(media_type, serde_json::to_vec(value)?))
    }

    /// Keeps bytes, and returns the descriptor that they are referred to by.
    fn blob(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let descriptor = json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        });
        self.blobs.insert(digest, bytes);
        descriptor
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use tar::Archive;

    use super::*;

    fn files(machines: &[&str]) -> BTreeMap<String, Vec<u8>> {
        let time = "2026-01-02T03:04:05Z".parse().unwrap();
        let source = Source { revision: None, time, maintainer: None };
        let mut layout = Layout::new([("org.opencontainers.image.title", "t".to_owned())].into());
        for machine in machines {
            let mut tree = Tree::default();
            tree.program("bin/program", *machine);
            layout.image(machine, json!({ "Cmd": ["program"] }), &tree, &source).unwrap();
        }
        let name = Name { name: "localhost/t", tag: "1" };
        let archive = layout.archive(&name, 0).unwrap();
        let mut found = BTreeMap::new();
        for entry in Archive::new(&archive[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            found.insert(entry.path().unwrap().display().to_string(), bytes);
        }
        found
    }

    fn read(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().unwrap().replace(':', "/");
        let bytes = &files[&format!("blobs/{digest}")];
        assert_eq!(descriptor["size"], bytes.len());
        assert_eq!(digest, format!("sha256/{}", sha256(bytes)));
        serde_json::from_slice(bytes).unwrap()
    }

    fn index(files: &BTreeMap<String, Vec<u8>>) -> Value {
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let [named] = &index["manifests"].as_array().unwrap()[..] else { panic!("{index}") };
        assert_eq!(named["annotations"]["io.containerd.image.name"], "localhost/t:1");
        named.clone()
    }

    #[test]
    fn one_image_is_named_itself() {
        let files = files(&["amd64"]);
        let named = index(&files);
        assert_eq!(named["platform"]["architecture"], "amd64");
        let manifest = read(&files, &named);
        let configuration = read(&files, &manifest["config"]);
        assert_eq!(configuration["config"]["Labels"]["org.opencontainers.image.title"], "t");
        assert_eq!(configuration["created"], "2026-01-02T03:04:05Z");
    }

    #[test]
    fn several_images_are_in_an_index() {
        let files = files(&["amd64", "arm64"]);
        let several = read(&files, &index(&files));
        let machines: Vec<_> = several["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|manifest| {
                let configuration = read(&files, &read(&files, manifest)["config"]);
                assert_eq!(configuration["architecture"], manifest["platform"]["architecture"]);
                configuration["architecture"].clone()
            })
            .collect();
        assert_eq!(machines, ["amd64", "arm64"]);
    }
}
