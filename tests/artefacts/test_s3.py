"""The client of S3: signatures of Amazon's examples, the keys of a machine, and refusals."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.artefacts.s3 import Bucket, Keys, find_keys, sign
from components.artefacts.web import Call, FetchError
from tests.artefacts.certificates import Authority
from tests.artefacts.web_server import Site, serve

# AWS, "Signature calculations for the Authorization header": its example requests.
EXAMPLE = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "https://examplebucket.s3.amazonaws.com"
MAY = datetime(2013, 5, 24, tzinfo=UTC)


@pytest.mark.parametrize(
    ("call", "names", "signature"),
    [
        (
            Call(f"{HOST}/test.txt", headers={"Range": "bytes=0-9"}),
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            Call(
                f"{HOST}/test%24file.text",
                "PUT",
                {
                    "Date": "Fri, 24 May 2013 00:00:00 GMT",
                    "x-amz-storage-class": "REDUCED_REDUNDANCY",
                },
                b"Welcome to Amazon S3.",
            ),
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            Call(f"{HOST}/?max-keys=2&prefix=J"),
            "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
    ids=["get", "put", "list"],
)
def test_requests_are_signed_as_amazon_shows(call: Call, names: str, signature: str) -> None:
    signed = sign(call, "us-east-1", EXAMPLE, MAY)
    scope = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
    assert signed.authorization == (
        f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={signature}"
    )
    assert EXAMPLE.secret_key not in repr(EXAMPLE)


def test_a_session_token_is_sent_and_signed() -> None:
    signed = sign(Call(HOST), "us-east-1", Keys("a", "b", "token"), MAY)
    assert signed.headers["x-amz-security-token"] == "token"
    assert "x-amz-date;x-amz-security-token," in signed.authorization


def test_keys_come_from_the_environment_or_the_file_of_aws(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert find_keys(home) is None
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = s%1\n"
        "[lab]\naws_access_key_id=two\naws_secret_access_key=s2\naws_session_token=t2\n"
    )
    assert find_keys(home) == Keys("one", "s%1")
    assert find_keys({**home, "AWS_PROFILE": "lab"}) == Keys("two", "s2", "t2")
    assert find_keys({**home, "AWS_PROFILE": "none"}) is None
    given = {"AWS_ACCESS_KEY_ID": "three", "AWS_SECRET_ACCESS_KEY": "s3"}
    assert find_keys({**home, **given}) == Keys("three", "s3")
    windows = {name: f"{value}\r\n" for name, value in given.items()}
    assert find_keys({**home, **windows}) == Keys("three", "s3")
    (tmp_path / ".aws" / "credentials").write_text("no section\n")
    assert find_keys(home) is None


@pytest.mark.parametrize("keys", [Keys("a\n", "b"), Keys("a", "b", "to\nken"), Keys("é☃", "b")])
def test_a_key_that_no_header_can_have_is_refused(keys: Keys) -> None:
    with pytest.raises(FetchError, match="a character that no header can have") as caught:
        Bucket("proofs", "us-east-1", keys, "https://127.0.0.1:1").get("x")
    assert "ken" not in str(caught.value).replace("session token", "")


# The answers of S3 (API reference, "Error responses") and of versitygw 1.8.0.
ERROR = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message>{}</Error>'
)


@pytest.mark.parametrize(
    ("status", "body", "what", "fix"),
    [
        (
            404,
            ERROR.format("NoSuchBucket", "", ""),
            "the bucket does not exist",
            "correct `address`",
        ),
        (403, ERROR.format("AccessDenied", "", ""), "the login may not do this", "s3:PutObject"),
        (403, "", "the login may not do this", "s3:ListBucket"),
        (
            403,
            ERROR.format("SignatureDoesNotMatch", "", ""),
            "the secret key is wrong",
            "AWS_SECRET",
        ),
        (
            400,
            ERROR.format(
                "AuthorizationHeaderMalformed",
                "the region 'us-east-1' is wrong; expecting 'eu-west-1'",
                "<Region>eu-west-1</Region>",
            ),
            "the region is wrong",
            "write `region: eu-west-1`",
        ),
        (301, ERROR.format("PermanentRedirect", "", ""), "another region", "write the bucket's"),
        (507, "", "the bucket is full", "free space"),
        (404, ERROR.format("XAdminUserNotFound", "", ""), "the access key is unknown", "`login`"),
        (400, ERROR.format("Odd", "It &lt;is&gt;.", ""), "It <is> (S3: Odd)", "look that code up"),
        (500, "<html>", "500 Internal Server Error", "try again later"),
    ],
)
def test_a_refusal_has_the_words_and_the_fix(
    tmp_path: Path, status: int, body: str, what: str, fix: str
) -> None:
    authority = Authority("s3")
    with serve(tmp_path, authority, Site(refusal=(status, body.encode()))) as site:
        bucket = Bucket("proofs", "us-east-1", EXAMPLE, site.address, authority.pem)
        for call in (lambda: bucket.put("key", b"x"), lambda: bucket.find("dev/")):
            with pytest.raises(FetchError) as raised:
                call()
            assert what in raised.value.what
            assert fix in raised.value.fix
            assert raised.value.status == status


def test_names_in_a_list_are_read_page_by_page_and_unescaped(tmp_path: Path) -> None:
    pages = {
        "/proofs?list-type=2&max-keys=1000&prefix=a%2Fb%20": b"<ListBucketResult>"
        b"<Key>a/b &amp;1</Key>"
        b"<IsTruncated>true</IsTruncated><NextContinuationToken>t/+=</NextContinuationToken>",
        "/proofs?continuation-token=t%2F%2B%3D&list-type=2&max-keys=1000&prefix=a%2Fb%20":
        b"<ListBucketResult><Key>a/b 2</Key>",
    }  # fmt: skip
    authority = Authority("s3")
    with serve(tmp_path, authority, Site(pages)) as site:
        bucket = Bucket("proofs", "us-east-1", EXAMPLE, site.address, authority.pem)
        assert bucket.find("a/b ") == ["a/b &1", "a/b 2"]
        site.files = dict.fromkeys(pages, b"<html>Please log in</html>")
        with pytest.raises(FetchError, match="the answer is not a list of S3"):
            bucket.find("a/b ")


def test_a_list_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "list-type=2&max-keys=1000&prefix=dev%2F"
    page = b"<ListBucketResult><Key>dev/1</Key><NextContinuationToken>t</NextContinuationToken>"
    pages = {f"/proofs?{first}": page, f"/proofs?continuation-token=t&{first}": page}
    monkeypatch.setattr("components.artefacts.s3._MOST_PAGES", 2)
    authority = Authority("s3")
    with serve(tmp_path, authority, Site(pages)) as site:
        bucket = Bucket("proofs", "us-east-1", EXAMPLE, site.address, authority.pem)
        with pytest.raises(FetchError, match="more than 2 names begin with dev/") as raised:
            bucket.find("dev/")
    assert raised.value.fix == "take a narrower prefix, or delete old ones"
