# aiostream: look-ahead and large reads for PostgreSQL 15
#
#   make                build against the PostgreSQL that pg_config names
#   make install        install there (may need root)
#   make installcheck   regression tests against a running, preloaded server
#
#   make demo           private throw-away cluster, cold scans measured: needs nothing but git and make
#   make check          all tests, on private throw-away clusters
#   make check-cassert  the same on a server with assertions (built once, into a cache folder)
#   make check-core     PostgreSQL's own tests with aiostream (test/core/check.sh says what variables choose)
#   make check-long     tests that take minutes: a standby's replay, crashes at many points (test/long)
#   make check-memcheck tests with AddressSanitizer, and under valgrind (test/memcheck.sh)
#   make check-soak     load, kills and crashes, for 10 minutes and more (test/soak/check.sh)
#   make lint           layering, headers, exported symbols, formatting, warnings
#   make format         bring src/ into the project's format
#   make deps           install with apt what the above need
#
# The second group works on a private copy of the tree and of the server's
# files: it leaves nothing in the checkout and nothing in an existing cluster.

SCRIPT_GOALS = check check-cassert check-core check-long check-memcheck check-soak demo deps format lint

.PHONY: $(SCRIPT_GOALS)

ifneq ($(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)),)

# These are scripts: they must work before PostgreSQL is installed, and PGXS
# has a "check" of its own.
ifdef PG_CONFIG
export PG_CONFIG
endif

check:
	@test/check.sh
check-cassert:
	@test/check.sh --cassert
check-core:
	@test/core/check.sh
check-long:
	@test/check.sh long
check-memcheck:
	@test/memcheck.sh
check-soak:
	@test/soak/check.sh
demo:
	@bench/demo.sh
deps:
	@test/deps.sh build test demo lint
format:
	@test/format.sh
lint:
	@test/lint.sh

OTHER_GOALS = $(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS))
ifneq ($(OTHER_GOALS),)
.PHONY: $(OTHER_GOALS)
$(OTHER_GOALS):
	+@$(MAKE) --no-print-directory $@
endif

else # everything else is PGXS's

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

ifeq ($(wildcard $(PGXS)),)

all install installcheck clean uninstall:
	@echo "$(PG_CONFIG) or PostgreSQL's build files not found: \"make deps\" installs them on Debian;" >&2
	@echo "elsewhere install PostgreSQL 15's development package, or say make PG_CONFIG=/path/to/pg_config" >&2
	@exit 1

else

MODULE_big = aiostream
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
EXTENSION = aiostream
DATA = $(wildcard sql/aiostream--*.sql)
PGFILEDESC = "aiostream - look-ahead and large reads"

# A changed header rebuilds what includes it, however the server was configured.
PG_CPPFLAGS = -I$(srcdir)/src -MMD -MP
# Calls into the server and within the library go straight, not by way of a table of jumps: that is
# 2 % of a hot index scan.  The warnings left out are for what PostgreSQL's own headers and conventions trip over.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-clobbered -fno-plt $(AIOSTREAM_CFLAGS)
SHLIB_LINK = -luring -Wl,-Bsymbolic-functions

REGRESS = $(sort $(patsubst test/sql/%.sql,%,$(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=test
ISOLATION = $(sort $(patsubst test/isolation/specs/%.spec,%,$(wildcard test/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test/isolation

DEPS = $(OBJS:.o=.d)
EXTRA_CLEAN = $(DEPS)

# No bitcode: nothing in here is worth inlining into JIT-compiled expressions,
# and so clang is not needed.
override with_llvm = no

include $(PGXS)

-include $(DEPS)

endif
endif
