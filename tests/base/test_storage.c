/* SPDX-License-Identifier: MIT */
#include "server/store/storage.h"

#include "engine/base/file.h"
#include "server/store/disk.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/bl-storage-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool is_there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

static bl_storage *open_storage(void)
{
    bl_storage *storage = NULL;
    bl_err err = {0};
    if (bl_storage_open(folder, &storage, &err) != BL_OK)
        fail_msg("%s", err.text);
    return storage;
}

static void put_note(bl_storage *storage, const char *name, const char *value, bl_status expected)
{
    bl_err err = {0};
    bl_status st = bl_storage_run(storage, "INSERT INTO notes VALUES (?1, ?2)", BL_CELLS(bl_cell_text(name), bl_cell_text(value)),
                                  NULL, NULL, &err);
    if (st != expected)
        fail_msg("%s: %s, not %s: %s", name, bl_status_name(st), bl_status_name(expected), err.text);
}

static bool copy_text(void *arg, const bl_cell *cells, int n)
{
    assert_int_equal(n, 1);
    assert_int_equal(cells[0].kind, BL_CELL_TEXT);
    snprintf(arg, 32, "%.*s", (int)cells[0].bytes.len, cells[0].bytes.data);
    return false;
}

/* The value of a note; "" if there is none. */
static const char *get_note(bl_storage *storage, const char *name)
{
    static char value[32];
    bl_err err = {0};
    value[0] = '\0';
    assert_int_equal(
        bl_storage_run(storage, "SELECT value FROM notes WHERE name = ?1", BL_CELLS(bl_cell_text(name)), copy_text, value, &err),
        BL_OK);
    return value;
}

static void what_is_kept_is_there_again(void **state)
{
    bl_storage *storage = open_storage();
    int64_t changed = 0;
    bl_err err = {0};
    (void)state;
    put_note(storage, "a", "first", BL_OK);
    put_note(storage, "a", "second", BL_ECONFLICT);
    bl_storage_close(storage);
    storage = open_storage();
    assert_string_equal(get_note(storage, "a"), "first");
    assert_int_equal(bl_storage_change(storage, "DELETE FROM notes", 0, NULL, &changed, &err), BL_OK);
    assert_int_equal(changed, 1);
    assert_string_equal(get_note(storage, "a"), "");
    bl_storage_close(storage);
}

static void owe_note(bl_storage *storage, const char *sql, bool expected)
{
    bl_err err = {0};
    bool owed = !expected;
    assert_int_equal(bl_storage_owe(storage, sql, BL_CELLS(bl_cell_text("a")), &owed, &err), BL_OK);
    assert_int_equal(owed, expected);
}

/* While the folder is not writable, the storage keeps owed statements.  They run later, in order and before any other
 * statement. */
static void what_is_owed_is_run_later(void **state)
{
    bl_storage *storage = open_storage();
    char away[160];
    bl_err err = {0};
    (void)state;
    snprintf(away, sizeof away, "%s.away", folder);
    put_note(storage, "a", "first", BL_OK);
    put_note(storage, "b", "second", BL_OK);
    assert_int_equal(rename(folder, away), 0);
    assert_false(bl_storage_is_there(storage));
    assert_int_equal(bl_storage_check_room(storage, 1, 0, &err), BL_ESTORAGE);
    put_note(storage, "c", "third", BL_ESTORAGE);
    owe_note(storage, "UPDATE notes SET value = 'owed' WHERE name = ?1", true);
    owe_note(storage, "UPDATE notes SET name = 'd' WHERE name = ?1 AND value = 'owed'", true);
    assert_string_equal(get_note(storage, "a"), "first");
    assert_int_equal(rename(away, folder), 0);
    put_note(storage, "a", "third", BL_OK); /* would be inserted twice if it ran before the owed statements */
    assert_string_equal(get_note(storage, "d"), "owed");
    owe_note(storage, "DELETE FROM notes WHERE name = ?1", false);
    assert_string_equal(get_note(storage, "a"), "");
    assert_int_equal(rename(folder, away), 0);
    owe_note(storage, "DELETE FROM notes WHERE name <> ?1", true);
    assert_int_equal(rename(away, folder), 0);
    bl_storage_close(storage); /* the last attempt to run owed statements */
    storage = open_storage();
    assert_string_equal(get_note(storage, "b"), "");
    bl_storage_close(storage);
}

static void nothing_is_kept_without_a_folder(void **state)
{
    bl_storage *storage = NULL;
    bl_err err = {0};
    (void)state;
    assert_int_equal(bl_storage_open("none", &storage, &err), BL_OK);
    assert_null(bl_storage_folder(storage));
    assert_null(bl_storage_make_folder(storage, "jobs"));
    put_note(storage, "a", "first", BL_OK);
    assert_string_equal(get_note(storage, "a"), "first");
    bl_storage_close(storage);
}

typedef struct notes {
    bl_storage *storage;
    bl_status how;
} notes;

static bl_status put_two(void *arg, bl_err *err)
{
    const notes *two = arg;
    put_note(two->storage, "x", "1", BL_OK);
    put_note(two->storage, "y", "2", BL_OK);
    return two->how == BL_OK ? BL_OK : bl_fail(err, two->how, "no");
}

static void all_or_nothing(void **state)
{
    notes two = {open_storage(), BL_ELIMIT};
    bl_err err = {0};
    (void)state;
    assert_int_equal(bl_storage_together(two.storage, put_two, &two, &err), BL_ELIMIT);
    assert_string_equal(get_note(two.storage, "x"), "");
    two.how = BL_OK;
    assert_int_equal(bl_storage_together(two.storage, put_two, &two, &err), BL_OK);
    assert_string_equal(get_note(two.storage, "y"), "2");
    bl_storage_close(two.storage);
}

/* The callback deletes each note and inserts a new note during the iteration. */
static bool take_over(void *arg, const bl_cell *cells, int n)
{
    bl_storage *storage = arg;
    bl_err err = {0};
    char name[32];
    assert_int_equal(n, 2);
    snprintf(name, sizeof name, "was %s", cells[0].bytes.data);
    assert_int_equal(bl_storage_run(storage, "DELETE FROM notes", 0, NULL, NULL, NULL, &err), BL_OK);
    assert_int_equal(bl_storage_run(storage, "INSERT INTO notes VALUES (?1, ?2)",
                                    BL_CELLS(bl_cell_text(name), bl_cell_text(cells[1].bytes.data)), NULL, NULL, &err),
                     BL_OK);
    return strcmp(name, "was y") != 0;
}

static void each_may_use_the_store(void **state)
{
    bl_storage *storage = open_storage();
    bl_err err = {0};
    static const char sql[] = "SELECT name, value FROM notes ORDER BY name";
    (void)state;
    assert_int_equal(
        bl_storage_run(storage, "INSERT INTO notes VALUES ('x', '1'), ('y', '2'), ('z', '3')", 0, NULL, NULL, NULL, &err), BL_OK);
    assert_int_equal(bl_storage_each(storage, sql, take_over, storage, &err), BL_OK);
    assert_string_equal(get_note(storage, "was x"), "");
    assert_string_equal(get_note(storage, "was y"), "2"); /* the last note of the iteration */
    assert_int_equal(bl_storage_each(storage, "SELECT nothing FROM notes", take_over, storage, &err), BL_ESTORAGE);
    bl_storage_close(storage);
}

static void one_server_has_it(void **state)
{
    bl_storage *storage = open_storage(), *other = NULL;
    bl_err err = {0};
    (void)state;
    assert_int_equal(bl_storage_open(folder, &other, &err), BL_ECONFLICT);
    assert_non_null(strstr(err.text, "another server"));
    bl_storage_close(storage);
    bl_storage_close(open_storage());
}

static void spoil(const char *text)
{
    FILE *file = fopen(in_folder("beamline.db"), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void set_number(const char *pragma)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(in_folder("beamline.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, pragma, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static char half[] = "half", whole[] = "whole";

static bl_status write_text(void *arg, int fd, bl_err *err)
{
    const char *text = arg;
    if (!bl_write_all(fd, text, strlen(text)))
        return bl_fail(err, BL_ESTORAGE, "not written");
    return text == half ? bl_fail(err, BL_ELIMIT, "in the middle") : BL_OK;
}

static void what_cannot_be_read_is_set_aside(void **state)
{
    bl_storage *storage = NULL;
    bl_err err = {0};
    char *path = NULL;
    (void)state;
    for (int i = 0; i < 2; i++) {
        spoil("this is no database, and long enough that one looks for a header in it, of a hundred bytes or so ..........");
        bl_storage_close(open_storage());
    }
    assert_true(is_there("beamline.db.damaged") && is_there("beamline.db.damaged-2"));
    storage = open_storage();
    put_note(storage, "a", "old", BL_OK);
    path = bl_storage_make_folder(storage, "tensors");
    free(path);
    assert_int_equal(bl_file_replace(in_folder("tensors/f"), write_text, whole, &err), BL_OK);
    assert_null(bl_storage_make_folder(storage, "other")); /* a database that is set aside would not take this folder along */
    bl_storage_close(storage);
    set_number("PRAGMA user_version = 999");
    storage = open_storage();
    assert_string_equal(get_note(storage, "a"), "");
    assert_true(is_there("beamline.db.newer") && is_there("beamline.db.newer.files/tensors/f"));
    assert_false(is_there("tensors"));
    bl_storage_close(storage);
    set_number("PRAGMA application_id = 7");
    assert_int_equal(bl_storage_open(folder, &storage, &err), BL_ECONFLICT); /* a database of another program is not moved */
    assert_true(is_there("beamline.db"));
}

static bool take_reader(void *arg, const bl_cell *cells, int n)
{
    bl_text_printf(arg, "%.*s/%d ", (int)cells[0].bytes.len, cells[0].bytes.data, n);
    return true;
}

/* Schema 1 stored the readers of a share as numbers, in a column of integers. */
static void readers_of_shares_become_names(void **state)
{
    bl_storage *storage = open_storage();
    bl_text readers = {0};
    bl_err err = {0};
    (void)state;
    bl_storage_close(storage);
    set_number(
        "DROP TABLE shares; PRAGMA user_version = 1; CREATE TABLE shares (owner INTEGER NOT NULL, kind TEXT NOT NULL, name "
        "TEXT NOT NULL, reader INTEGER NOT NULL, PRIMARY KEY (owner, kind, name, reader)) WITHOUT ROWID; INSERT INTO keys "
        "VALUES (3, 'bob', 'h', '', '', 0, 0, 0); INSERT INTO shares VALUES (1, 'tensor', 'a', 3), (1, 'tensor', 'b', 0)");
    for (int i = 0; i < 2; i++) {
        storage = open_storage();
        bl_text_clear(&readers);
        assert_int_equal(bl_storage_run(storage, "SELECT reader FROM shares ORDER BY name", 0, NULL, take_reader, &readers, &err),
                         BL_OK);
        assert_string_equal(bl_text_get(&readers), "bob/1 */1 ");
        bl_storage_close(storage);
    }
    bl_text_fini(&readers);
}

static void files_are_whole_or_not_there(void **state)
{
    char text[16] = {0};
    bl_err err = {0};
    FILE *file = NULL;
    (void)state;
    assert_int_equal(bl_file_replace(in_folder("f"), write_text, half, &err), BL_ELIMIT);
    assert_false(is_there("f") || is_there("f.new"));
    err = (bl_err){0};
    assert_int_equal(bl_file_replace(in_folder("f"), write_text, whole, &err), BL_OK);
    assert_int_equal(bl_file_replace(in_folder("f"), write_text, half, &err), BL_ELIMIT);
    file = fopen(in_folder("f"), "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "whole");
    err = (bl_err){0};
    assert_int_equal(bl_file_replace(in_folder("no/f"), write_text, whole, &err), BL_ESTORAGE);
}

typedef struct reserving {
    bl_disk disk;
    atomic_bool over;
} reserving;

static void *reserve_again(void *arg)
{
    reserving *r = arg;
    while (!atomic_load(&r->over))
        assert_false(bl_disk_reserve(&r->disk));
    return NULL;
}

/* A thread tries to restore the reserve and fails, since files may have at most 4 MiB.  The failure must not claim back what a
 * statement has released meanwhile: exactly 4 steps of 1 MiB are available. */
static void a_reserve_that_fails_takes_nothing_back(void **state)
{
    enum { STEPS = 4, ROUNDS = 100 };
    struct rlimit before, less;
    reserving r = {.disk = {.folder_fd = -1, .lock_fd = -1}};
    bl_err err = {0};
    pthread_t thread;
    int wrong = 0;
    (void)state;
    assert_int_equal(bl_disk_open(&r.disk, strdup(folder), true, &err), BL_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    less.rlim_cur = STEPS << 20;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int steps = 0, fd = open(in_folder("reserve"), O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        assert_int_equal(posix_fallocate(fd, 0, STEPS << 20), 0);
        close(fd);
        atomic_store(&r.over, false);
        assert_int_equal(pthread_create(&thread, NULL, reserve_again, &r), 0);
        while (steps < 100 && bl_disk_make_way(&r.disk))
            steps++;
        atomic_store(&r.over, true);
        pthread_join(thread, NULL);
        wrong += steps != STEPS;
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    bl_disk_close(&r.disk);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_kept_is_there_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_owed_is_run_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_kept_without_a_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_or_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_may_use_the_store, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_server_has_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_set_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readers_of_shares_become_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_are_whole_or_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reserve_that_fails_takes_nothing_back, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
