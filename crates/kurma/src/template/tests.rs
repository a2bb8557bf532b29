use super::*;

const POD: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";

/// What a template says, with `num` networks before.
fn with(source: &str, num: usize) -> Result<String> {
    let pod: PodId = POD.parse().unwrap();
    let mut byte = 0u8;
    let mut random = || {
        byte = byte.wrapping_mul(5).wrapping_add(17);
        Ok(byte)
    };
    let rendered = Template::read(source)?.render(Facts { pod: &pod, num }, &mut random)?;
    Ok(rendered.interface.map(String::from).unwrap_or_default())
}

fn render(source: &str) -> String {
    with(source, 4).unwrap()
}

fn error(source: &str) -> String {
    with(source, 4).unwrap_err().to_string()
}

#[test]
fn t1_t2_names_of_interfaces() {
    assert_eq!(render("veth+{{shortuuid}}"), "veth+146d7cef");
    assert_eq!(with("eth{{num}}", 0).unwrap(), "eth0");
    assert_eq!(with("eth{{num}}", 2).unwrap(), "eth2");
}

#[test]
fn t3_t5_a_name_has_15_bytes() {
    for long in ["{{uuid}}", "{{random 99}}"] {
        let error = error(long);
        assert!(error.starts_with("containerInterface "), "{error}");
        assert!(error.ends_with("is longer than 15 bytes"), "{error}");
    }
}

#[test]
fn t4_t6_random_letters() {
    let name = render("r{{random 4}}");
    assert_eq!((name.len(), name.starts_with('r')), (5, true));
    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{name}");
    assert_eq!(render("z{{random 0}}"), "z");
    let pod = POD.parse().unwrap();
    for (source, is_random) in [("{{if false}}{{random 1}}{{end}}x", false), ("{{random 1}}", true)]
    {
        let mut zero = || Ok(0);
        let template = Template::read(source).unwrap();
        let rendered = template.render(Facts { pod: &pod, num: 0 }, &mut zero).unwrap();
        assert_eq!(rendered.is_random, is_random, "{source}");
    }
    assert!(error("{{random -1}}").contains("from 0 on"));
}

#[test]
fn t7_t8_functions_of_go() {
    assert_eq!(render(r#"{{ shortuuid | printf "x%s" }}"#), "x146d7cef");
    let source = "{{if gt num 3}}big{{else}}small{{end}}";
    assert_eq!((render(source), with(source, 3).unwrap()), ("big".into(), "small".into()));
    let source = "{{if eq num 0}}a{{else if eq num 1 2}}b{{else}}c{{end}}";
    let names: Vec<_> = (0..4).map(|num| with(source, num).unwrap()).collect();
    assert_eq!(names, ["a", "b", "b", "c"]);
    for (source, name) in [
        (r#"{{printf "%02d" num}}"#, "04"),
        (r#"{{printf "%-3dx%3dx" 1 2}}"#, ""),
        (r#"{{printf "%x%X%v" 254 254 true}}"#, "feFEtrue"),
        (r#"{{len (printf "a%%b")}}"#, "3"),
        (r#"{{if and (lt num 5) (not false)}}y{{end}}"#, "y"),
        (r#"{{or "" shortuuid}}"#, "146d7cef"),
        (r#"{{and num 0}}"#, "0"),
        (r#"{{len "four"}}{{print 1 2 "a" 3}}"#, ""),
        (r#"{{"a}}b" | len}}"#, "4"),
        ("{{`r\"aw`}}", "r\"aw"),
        ("{{0x1f}}{{-3}}", "31-3"),
        ("{{if ne num 4}}{{else}}{{if true}}q{{end}}{{end}}", "q"),
    ] {
        match name {
            "" => assert!(error(source).contains("white space"), "{source}"),
            name => assert_eq!(render(source), name, "{source}"),
        }
    }
}

#[test]
fn t9_t10_t12_mistakes_are_reported() {
    for (source, answer) in [
        ("{{bogus}}", "function \"bogus\" not defined"),
        ("eth{{num", "unclosed action"),
        ("{{random \"4\"}}", "expected integer"),
        ("{{random}}", "wrong number of args for random: want 1 got 0"),
        ("{{num 3}}", "wrong number of args for num: want 0 got 1"),
        ("{{if num}}x", "unexpected EOF"),
        ("{{end}}", "unexpected {{end}}"),
        ("{{else}}", "unexpected {{else}}"),
        ("{{if num}}{{else}}{{else}}{{end}}", "unexpected {{else}}"),
        ("{{}}", "missing value for command"),
        ("{{if}}{{end}}", "missing value for if"),
        ("{{num | 3}}", "non executable command in pipeline"),
        ("{{3 num}}", "can't give argument to non-function 3"),
        ("{{(num}}", "unclosed left paren"),
        ("{{num)}}", "unexpected right paren"),
        ("{{\"x}}", "unterminated quoted string"),
        ("{{/* x }}", "unclosed comment"),
        ("{{/* x */ num}}", "comment ends before closing delimiter"),
        ("{{eq num \"4\"}}", "incompatible types for comparison"),
        ("{{printf \"%d\" uuid}}", "expected integer for printf"),
        ("{{printf \"%s\"}}", "has no argument"),
        ("{{printf \"x\" 1}}", "no place for argument"),
        ("{{.Name}}", "not for the names of interfaces"),
        ("{{range num}}{{end}}", "not for the names of interfaces"),
        ("{{$x := num}}", "unexpected ':'"),
        ("a/b", "holds '/'"),
    ] {
        let said_really = error(source);
        assert!(said_really.contains(answer.trim_end_matches(" 3")), "{source}: {said_really}");
    }
}

#[test]
fn t11_t13_white_space_and_nothing() {
    assert_eq!(render("{{/* c */}}a{{- num -}} b"), "a4b");
    assert_eq!(render("a {{- /* c */ -}} b"), "ab");
    assert_eq!(render("\n{{- /* c */ -}} \t a {{- `b` -}}\r\n"), "ab");
    assert_eq!(render(""), "");
    assert_eq!(render("{{if false}}x{{end}}"), "");
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("{{{{{}num{}}}}}", "(".repeat(500), ")".repeat(500));
    assert!(error(&deep).contains("too deeply"));
    let deep = format!("{}{}", "{{if true}}".repeat(60), "{{end}}".repeat(60));
    assert!(error(&deep).contains("too deeply"));
}

#[test]
fn damage_never_panics() {
    let source =
        "{{/* c */}}a{{- if gt num 3 | printf \"%02d\" `x` -}}é{{else}}{{random 4}}{{end}}";
    for from in 0..source.len() {
        for to in from..source.len() {
            if let Some(part) = source.get(from..to) {
                let _ = with(part, 1);
            }
        }
    }
}
