"""Four flights as the tests of the quickstart's parts know them."""

from __future__ import annotations

import zipfile

import pytest

from examples.quickstart.flights import Truth, read_flights

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour"
)
LINES = [
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    "2013,1,2,533,529,4,850,830,20,UA,1714,N24211,LGA,IAH,227,1416,5,29,2013-01-02T10:00:00Z",
    "2013,1,3,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-03T21:00:00Z",
    "2013,2,1,544,545,-1,1004,1022,-18,B6,725,,JFK,BQN,183,1576,5,45,2013-02-01T10:00:00Z",
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *LINES]) + "\n")
    return path


@pytest.fixture
def truth(table):
    return Truth.of(read_flights(table))
