#!/usr/bin/env bash
# Installs Debian's chromium, with which the tests of the page run (tests/ui/test_ui_browser.py).
# It needs root and apt-get; elsewhere it says that it did nothing, and those tests are skipped.
# Exit status: 3 if it cannot be installed on this machine.
set -euo pipefail
if command -v chromium > /dev/null; then exit; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "chromium is NOT installed: that needs root and apt-get; the pages are not tried in a browser" >&2
  exit 3
fi
echo "installing chromium" >&2
{ apt-get update && apt-get install --yes --no-install-recommends chromium; } > /dev/null
