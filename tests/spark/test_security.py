"""Spark reads from and writes to a cluster that is all TLS and signatures; its secrets stay where they are."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from guarded import SECRETS, guarded_cluster

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with guarded_cluster(tmp_path_factory.mktemp("guarded")) as cluster:
        yield cluster


def options(cluster, role, topic="orders"):
    return {"nameServer": cluster.name_servers, "topic": topic, "securityFile": str(cluster.security_file(role))}


def rows(spark, count):
    return spark.range(count).selectExpr("cast(id AS string) AS body")


def test_rows_go_there_and_back(spark, guarded, tmp_path, capfd):
    rows(spark, 100).write.format("rocketmq").mode("append").options(**options(guarded, "writer")).save()

    frame = spark.read.format("rocketmq").options(**options(guarded, "reader")).load()
    bodies = sorted(int(row.body) for row in frame.collect())
    given = options(guarded, "reader") | {"startingOffsets": "earliest"}
    stream = spark.readStream.format("rocketmq").options(**given).load()
    query = stream.writeStream.format("memory").queryName("guarded").trigger(availableNow=True).start()
    query.awaitTermination()

    assert bodies == list(range(100))
    assert spark.sql("SELECT count(*) FROM guarded").first()[0] == 100
    frame.explain(True)
    query.explain(True)
    shown = "".join(capfd.readouterr()) + str(query.lastProgress)
    assert not [secret for secret in SECRETS.values() if secret in shown]


def test_a_file_that_spark_sends_along_is_found_by_its_name(spark, guarded, tmp_path):
    sent = tmp_path / "sent-along.properties"
    sent.write_text(guarded.security_file("writer").read_text().replace("trust.pem", "sent-along-ca.pem"))
    (tmp_path / "sent-along-ca.pem").write_bytes((guarded.folder / "trust.pem").read_bytes())
    for path in (sent, tmp_path / "sent-along-ca.pem"):
        spark.sparkContext.addFile(str(path))
    given = options(guarded, "writer", "sent-along") | {"securityFile": sent.name}

    rows(spark, 10).write.format("rocketmq").mode("append").options(**given).save()

    assert spark.read.format("rocketmq").options(**given).load().count() == 10


@pytest.mark.parametrize(("role", "said"), [("reader", "role writer"), ("nobody", "role writer")])
def test_who_may_not_send_fails_without_showing_a_secret(spark, guarded, role, said, capfd):
    with pytest.raises(PySparkException, match=said) as caught:
        rows(spark, 1).write.format("rocketmq").mode("append").options(**options(guarded, role)).save()

    shown = str(caught.value) + "".join(capfd.readouterr())
    assert not [secret for secret in SECRETS.values() if secret in shown]


@pytest.mark.interop
def test_who_speaks_no_tls_gets_nothing(spark, guarded):
    given = options(guarded, "reader")
    del given["securityFile"]
    with pytest.raises(PySparkException, match="no NameServer could be asked"):
        spark.read.format("rocketmq").options(**given).load().collect()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "accessKey=me\nsecretKey=hidden-secret\ntlsEnable=maybe\n",
            "tlsEnable: 'maybe' is not allowed, expected true",
        ),
        ("accessKey=me\n", "secretKey"),
        ("acessKey=me\nsecretKey=hidden-secret\n", "acessKey.*only the keys accessKey"),
        ("tlsEnable=true\ntlsClientTrustCertPath=nowhere.pem\n", "nowhere.pem.*a readable file"),
        (None, "a readable Java properties file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_when_the_frame_is_made(spark, tmp_path, text, said):
    path = tmp_path / "mine.properties"
    if text is not None:
        path.touch(0o600)
        path.write_text(text)
    reader = spark.read.format("rocketmq").option("nameServer", "127.0.0.1:1").option("topic", "t")
    with pytest.raises(PySparkException, match=f"(?s)securityFile.*{said}") as caught:
        reader.option("securityFile", str(path)).load()
    assert "mine.properties" in str(caught.value)
    assert "hidden-secret" not in str(caught.value)
