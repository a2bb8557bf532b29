//! What templates say about data.

use model::Result;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(template: &str) -> Result<Template> {
    Template::read(template, Dialect { functions: &[], without_data: None })
}

fn show(template: &str) -> Result<String> {
    read(template)?.render(
        &json!({
            "name": "front",
            "mtu": 1500,
            "host_port": 80,
            "ok": true,
            "none": null,
            "list": ["a", "b"],
            "subnets": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}],
        }),
        &mut (),
    )
}

#[test]
fn what_docker_users_write() {
    for (template, text) in [
        ("{{.Name}}\t{{.MTU}}", "front\t1500"),
        ("{{ .HostPort }}/{{.host_port}}", "80/80"),
        ("{{json .List}}", r#"["a","b"]"#),
        ("{{.List | json}}", r#"["a","b"]"#),
        ("{{join .List \", \"}}", "a, b"),
        ("{{range .Subnets}}{{.Subnet}};{{end}}", "10.0.0.0/24;fd00::/64;"),
        ("{{range .None}}x{{else}}nothing{{end}}", "nothing"),
        ("{{if .Ok}}yes{{else}}no{{end}}", "yes"),
        ("{{if eq .Name \"front\"}}F{{end}}", "F"),
        ("{{if eq .None \"x\"}}{{else if gt .MTU 1499}}big{{end}}{{/* c */}}", "big"),
        ("{{range .Subnets}}{{if (index . \"subnet\" | len | eq 9)}}six{{end}}{{end}}", "six"),
        ("{{printf \"%-6s|%05d\" .Name .MTU}}", "front |01500"),
        ("{{len .List}} {{upper .Name}} {{index .List 1}}", "2 FRONT b"),
        ("a  {{- .Name -}}  b", "afrontb"),
        ("a  {{- \" \"}}{{.None}} {{.List}}", "a <no value> [a b]"),
    ] {
        assert_eq!(show(template).unwrap(), text, "{template}");
    }
}

#[test]
fn what_others_wrote_does_not_steer_the_terminal() {
    let bad = "a\u{1b}[2Jb\u{9b}c";
    let data = json!({"title": bad, "list": [bad], "labels": {bad: bad}});
    for template in [
        "{{.Title}}",
        "{{upper .Title}}",
        "{{join .List \",\"}}",
        "{{range .List}}{{.}}{{end}}",
        "{{.Labels}}",
        "{{.}}",
        "{{.Title | println}}",
        "{{index .List 0}}",
    ] {
        let text = read(template).unwrap().render(&data, &mut ()).unwrap();
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(text.contains('?') && !text.contains(steers), "{template}: {text:?}");
    }
    let own = read("\u{1b}[1m{{.Title}}").unwrap().render(&data, &mut ()).unwrap();
    assert!(own.starts_with("\u{1b}[1ma?"), "{own:?}");
}

#[test]
fn json_says_control_characters_in_letters() {
    let data = json!({"title": "a\u{1b}\u{7f}\u{9b}b"});
    let text = read("{{json .Title}}").unwrap().render(&data, &mut ()).unwrap();
    assert_eq!(text, r#""a\u001b\u007f\u009bb""#);
}

#[test]
fn headings_are_the_names_of_fields() {
    let template = read("{{.Name}}\t{{range .Subnets}}{{.Subnet}}{{end}}\t{{len .List}}").unwrap();
    assert_eq!(template.headings(), "NAME\tSUBNETS\tLIST");
}

#[test]
fn says_what_there_is_instead() {
    let error = show("{{.Nmae}}").unwrap_err().to_string();
    assert!(error.contains("Nmae") && error.contains("name"), "{error}");
    for bad in ["{{.Name", "{{end}}", "{{if .Ok}}", "{{}}", "{{foo .Name}}", "{{\"a}}"] {
        assert_eq!(show(bad).unwrap_err().kind(), model::Kind::Invalid, "{bad}");
    }
}

proptest! {
    #[test]
    fn never_panics(template in r#"([a-z ]|\{\{|\}\}|\.|\||"|\\|-|range |end|if |else|json |ü){0,30}"#) {
        let _ = show(&template);
    }
}
