"""The report of a study: tables, statistics and a figure, as files for a paper."""

from flatfed.studies.reporting.study_report import write_study_report

__all__ = ["write_study_report"]
