//! `#[e2e(...)]` makes a function an end-to-end test, and says at the test where and
//! beside what it is run:
//!
//! - `every_change`: in virtual machines at every change, as a kernel's difference may
//!   well break it; `long`: there only in the long run; or `never = "REASON"`;
//! - on a host `beside` others; beside a `few`, as it measures, but takes a fraction of a
//!   processor for it; or `alone`, as what it measures takes the whole machine, or as it
//!   changes, counts or traces what is the host's;
//!   Or `never_on_hosts = "REASON"`: in virtual machines alone, as it does what harms whoever
//!   is on a host with it;
//! - `slow`: it takes half a minute or more, and is begun before the others of its kind;
//! - `any_kernel`: also where no congestion control by BPF can be registered;
//! - `needs = "PROGRAM"`: only where the kernel takes this BPF program, by its name in
//!   `wad check --host`. On a host that refuses it the test is left to virtual machines, where it
//!   has to be run at `every_change`.
//!
//! A function with the attribute returns an `anyhow::Result<()>`. Without it, it is
//! dead code, which the compiler says.
#![forbid(unsafe_code)]

use proc_macro::{TokenStream, TokenTree};

/// Registers the function as an end-to-end test.
#[proc_macro_attribute]
pub fn e2e(attribute: TokenStream, function: TokenStream) -> TokenStream {
    let registration = Said::read(attribute)
        .and_then(|said| Ok(said.registration(&name(&function)?)))
        .unwrap_or_else(|error| format!("compile_error!({error:?});"));
    let mut all = function;
    all.extend(registration.parse::<TokenStream>().expect("it is Rust"));
    all
}

/// A test says this of itself, in its attribute.
#[derive(Default)]
struct Said {
    machines: Option<String>,
    company: Option<String>,
    is_slow: bool,
    any_kernel: bool,
    needs: Option<String>,
}

impl Said {
    fn read(attribute: TokenStream) -> Result<Self, String> {
        let mut said = Self::default();
        let mut tokens = attribute.into_iter();
        while let Some(token) = tokens.next() {
            match token.to_string().as_str() {
                "every_change" => said.tier("EveryChange".to_owned())?,
                "long" => said.tier("Long".to_owned())?,
                "never" => said.tier(format!("Never({})", reason(&mut tokens)?))?,
                "beside" => said.company = Some("Beside".to_owned()),
                "few" => said.company = Some("Few".to_owned()),
                "alone" => said.company = Some("Alone".to_owned()),
                "never_on_hosts" => {
                    said.company = Some(format!("NeverOnHosts({})", reason(&mut tokens)?));
                }
                "slow" => said.is_slow = true,
                "any_kernel" => said.any_kernel = true,
                "needs" => said.needs = Some(reason(&mut tokens)?.to_string()),
                "," => {}
                other => return Err(format!("`{other}` says nothing of a test")),
            }
        }
        Ok(said)
    }

    fn tier(&mut self, tier: String) -> Result<(), String> {
        match self.machines.replace(tier) {
            None => Ok(()),
            Some(_) => Err("a test is in one tier of the virtual machines".to_owned()),
        }
    }

    fn registration(&self, function: &str) -> String {
        let Some(machines) = &self.machines else {
            return missing("in virtual machines `every_change`, `long`, or `never = \"REASON\"`");
        };
        let Some(company) = &self.company else {
            return missing(
                "`beside` others, beside a `few` or `alone`, or `never_on_hosts = \"REASON\"`",
            );
        };
        if self.needs.is_some() && machines != "EveryChange" {
            return missing("in virtual machines `every_change`: hosts may refuse what it `needs`");
        }
        let Self { is_slow, any_kernel, .. } = self;
        // The program is a literal already.
        let needs = self.needs.as_ref().map_or("None".to_owned(), |it| format!("Some({it})"));
        format!(
            "::inventory::submit! {{ crate::harness::Test {{
                path: ::core::concat!(::core::module_path!(), \"::{function}\"),
                machines: crate::harness::Machines::{machines},
                company: crate::harness::Company::{company},
                is_slow: {is_slow},
                any_kernel: {any_kernel},
                needs: {needs},
                run: {function},
            }} }}"
        )
    }
}

/// Returns the reason that follows a word, behind a sign.
fn reason(tokens: &mut impl Iterator<Item = TokenTree>) -> Result<TokenTree, String> {
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Punct(_)), Some(reason @ TokenTree::Literal(_))) => Ok(reason),
        _ => Err("a reason is said as in `never = \"why it cannot be run there\"`".to_owned()),
    }
}

fn missing(what: &str) -> String {
    format!("compile_error!({:?});", format!("say whether it is run {what}"))
}

/// Returns the name after `fn`.
fn name(function: &TokenStream) -> Result<String, String> {
    let mut words = function.clone().into_iter().map(|token| token.to_string());
    words.find(|word| word == "fn").and(words.next()).ok_or("only a function is a test".to_owned())
}
