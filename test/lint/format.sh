# PostgreSQL's format (mend with make format).
set -euo pipefail

exec bash test/format.sh --check
