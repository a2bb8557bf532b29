use super::*;

#[test]
fn errors_keep_the_status_of_neutron() {
    for (error, expected) in [
        (Error::conflict("IP address in use").with_status(409), 409),
        (Error::not_found("no such network").with_status(404), 404),
        (Error::try_again("busy").with_status(503), 503),
        (Error::bug("odd").with_status(200), 500),
        (Error::invalid("10.0.0.5/24 is an address"), 400),
        (Error::unsupported("two subnets"), 400),
        (Error::try_again("Neutron does not answer"), 500),
        (Error::not_found("no such endpoint"), 500),
    ] {
        assert_eq!(status(&error), expected, "{error}");
    }
}
