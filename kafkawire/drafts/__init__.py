"""Layouts that KIP texts proposed and Kafka never shipped, a package for each text.

They share api keys and versions with released messages and differ in nothing a header shows, so they are never found by
api key and never sent: `from kafkawire.drafts.kip_664_draft import WriteTxnMarkersRequest`.
"""
