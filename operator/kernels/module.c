/* The kernels as a Python module. Buffers go in; bytes and numbers come out.
 *
 * Python allocates what a kernel fills, and only after the kernel has counted it. The work itself runs without Python's
 * lock. Streams to decode are bytes, because another thread cannot change those between the count and the work.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "output.h"

static PyObject *refuse(Problem problem, Py_ssize_t count)
{
    static const char *const words[] = {
        [TRUNCATED] = "a truncated stream",
        [NUMBER_TOO_LONG] = "a number of more than 64 bits",
        [PACKED_TOO_WIDE] = "a packed number of more than 64 bits",
        [DELTA_WITHOUT_DELTA] = "a delta run without a delta",
        [PATCH_BEYOND_RUN] = "a patch beyond its run",
    };
    if (problem == NO_MEMORY)
        return PyErr_NoMemory();
    if (problem == TOO_MANY_VALUES)
        return PyErr_Format(PyExc_ValueError, "a stream of more than %zd values", count);
    PyErr_SetString(PyExc_ValueError, words[problem]);
    return NULL;
}

static bool stream_of(PyObject *bytes, Stream *stream)
{
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &data, &size))
        return false;
    stream->data = (const uint8_t *)data;
    stream->size = size;
    return true;
}

static PyObject *py_decode_integers(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bytes, *values;
    Py_ssize_t count;
    int is_signed, version;
    Stream stream;
    Problem problem;
    if (!PyArg_ParseTuple(arguments, "Snpi", &bytes, &count, &is_signed, &version) || !stream_of(bytes, &stream))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    problem = check_integers(stream, count, is_signed, version);
    Py_END_ALLOW_THREADS;
    if (problem)
        return refuse(problem, count);
    if (!(values = PyByteArray_FromStringAndSize(NULL, count * 8)))
        return NULL;
    uint64_t *out = (uint64_t *)PyByteArray_AsString(values);
    Py_BEGIN_ALLOW_THREADS;
    problem = write_integers(stream, count, is_signed, version, out);
    Py_END_ALLOW_THREADS;
    if (!problem)
        return values;
    Py_DECREF(values);
    return refuse(problem, count);
}

static PyObject *py_decode_bytes(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bytes, *values;
    Py_ssize_t count;
    Stream stream;
    Problem problem;
    if (!PyArg_ParseTuple(arguments, "Sn", &bytes, &count) || !stream_of(bytes, &stream))
        return NULL;
    if ((problem = check_bytes(stream, count)))
        return refuse(problem, count);
    if (!(values = PyByteArray_FromStringAndSize(NULL, count)))
        return NULL;
    write_bytes(stream, count, (uint8_t *)PyByteArray_AsString(values));
    return values;
}

static PyObject *py_split_varints(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bytes, *lengths;
    Stream stream;
    if (!PyArg_ParseTuple(arguments, "S", &bytes) || !stream_of(bytes, &stream))
        return NULL;
    if (!(lengths = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)count_varints(stream) * 8)))
        return NULL;
    write_varint_lengths(stream, (int64_t *)PyByteArray_AsString(lengths));
    return lengths;
}

static PyObject *py_steady_runs(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *bytes, *runs;
    Py_ssize_t position, most;
    Stream stream;
    if (!PyArg_ParseTuple(arguments, "Snn", &bytes, &position, &most) || !stream_of(bytes, &stream))
        return NULL;
    if (position < 0 || position > stream.size) {
        PyErr_SetString(PyExc_ValueError, "a position outside of the stream");
        return NULL;
    }
    int64_t start = position, end = position;
    int64_t count = read_steady_runs(stream, &end, most, NULL);
    if (!(runs = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(count * (int64_t)sizeof(SteadyRun)))))
        return NULL;
    read_steady_runs(stream, &start, count, (SteadyRun *)PyByteArray_AsString(runs));
    return Py_BuildValue("(NL)", runs, end);
}

/* Groups must ascend from 0 to the number of values. */
static bool check_groups(Numbers groups, int64_t count)
{
    bool sound = groups.count > 0 && number_at(groups, 0) == 0 && number_at(groups, groups.count - 1) == count;
    for (int64_t group = 1; sound && group < groups.count; group++)
        sound = number_at(groups, group - 1) <= number_at(groups, group);
    if (!sound)
        PyErr_SetString(PyExc_ValueError, "row groups that do not ascend from 0 to the number of values");
    return sound;
}

static Numbers numbers_of(const Py_buffer *buffer)
{
    return (Numbers){buffer->buf, buffer->len / 8};
}

/* Return (bytes, starts of the groups), and free the output. */
static PyObject *encoded(Problem problem, Output *output, PyObject *starts)
{
    PyObject *result = NULL;
    if (problem)
        refuse(problem, 0);
    else
        result = Py_BuildValue("(y#O)", output->data ? (char *)output->data : "", (Py_ssize_t)output->size, starts);
    free(output->data);
    return result;
}

static PyObject *encode(const Py_buffer *values, const Py_buffer *groups, int is_signed, bool integers)
{
    Numbers group_numbers = numbers_of(groups);
    Output output = {NULL, 0, 0};
    PyObject *starts, *result;
    Problem problem;
    if (!check_groups(group_numbers, integers ? values->len / 8 : values->len))
        return NULL;
    if (!(starts = PyByteArray_FromStringAndSize(NULL, (group_numbers.count - 1) * 8)))
        return NULL;
    int64_t *places = (int64_t *)PyByteArray_AsString(starts);
    Py_BEGIN_ALLOW_THREADS;
    problem = integers ? encode_integers(numbers_of(values), group_numbers, is_signed, &output, places)
                       : encode_bytes(values->buf, group_numbers, &output, places);
    Py_END_ALLOW_THREADS;
    result = encoded(problem, &output, starts);
    Py_DECREF(starts);
    return result;
}

static PyObject *py_encode_integers(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer values, groups;
    int is_signed;
    PyObject *result;
    if (!PyArg_ParseTuple(arguments, "y*y*p", &values, &groups, &is_signed))
        return NULL;
    result = encode(&values, &groups, is_signed, true);
    PyBuffer_Release(&values);
    PyBuffer_Release(&groups);
    return result;
}

static PyObject *py_encode_bytes(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer values, groups;
    PyObject *result;
    if (!PyArg_ParseTuple(arguments, "y*y*", &values, &groups))
        return NULL;
    result = encode(&values, &groups, false, false);
    PyBuffer_Release(&values);
    PyBuffer_Release(&groups);
    return result;
}

static PyObject *py_integer_statistics(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer values;
    IntegerStatistics found;
    if (!PyArg_ParseTuple(arguments, "y*", &values))
        return NULL;
    found = integer_statistics(numbers_of(&values));
    PyBuffer_Release(&values);
    if (found.overflows)
        return Py_BuildValue("LLO", found.least, found.greatest, Py_None);
    return Py_BuildValue("LLL", found.least, found.greatest, found.sum);
}

/* Return (scale, least, greatest, high and low word of the sum) for each scale that has values. */
static PyObject *decimals_found(const DecimalStatistics *by_scale)
{
    PyObject *found = PyList_New(0);
    for (int scale = 0; found && scale < DECIMAL_SCALES; scale++) {
        const DecimalStatistics *one = &by_scale[scale];
        PyObject *entry;
        if (!one->count)
            continue;
        entry = Py_BuildValue("iLLLK", scale, one->least, one->greatest, (long long)(one->sum >> 64),
                              (unsigned long long)one->sum);
        if (!entry || PyList_Append(found, entry))
            Py_CLEAR(found);
        Py_XDECREF(entry);
    }
    return found;
}

static PyObject *py_decimal_statistics(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    DecimalStatistics by_scale[DECIMAL_SCALES] = {{0, 0, 0, 0}};
    Py_buffer data, offsets, scales;
    bool known;
    if (!PyArg_ParseTuple(arguments, "y*y*y*", &data, &offsets, &scales))
        return NULL;
    known = offsets.len / 8 == scales.len / 8 + 1
            && decimal_statistics((Stream){data.buf, data.len}, numbers_of(&offsets), numbers_of(&scales), by_scale);
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&scales);
    if (!known)
        Py_RETURN_NONE;
    return decimals_found(by_scale);
}

static PyObject *py_string_bounds(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer data, offsets;
    int64_t least, greatest;
    bool sound;
    if (!PyArg_ParseTuple(arguments, "y*y*", &data, &offsets))
        return NULL;
    sound = string_bounds((Stream){data.buf, data.len}, numbers_of(&offsets), &least, &greatest);
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    if (!sound)
        PyErr_SetString(PyExc_ValueError, "offsets outside of their data");
    return sound ? Py_BuildValue("LL", least, greatest) : NULL;
}

static PyObject *py_timestamp_bounds(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer seconds, nanos;
    int64_t least, greatest;
    bool known;
    if (!PyArg_ParseTuple(arguments, "y*y*", &seconds, &nanos))
        return NULL;
    known = seconds.len / 8 == nanos.len / 8
            && timestamp_bounds(numbers_of(&seconds), numbers_of(&nanos), &least, &greatest);
    PyBuffer_Release(&seconds);
    PyBuffer_Release(&nanos);
    if (!known)
        Py_RETURN_NONE;
    return Py_BuildValue("LL", least, greatest);
}

enum { EVENT_COLUMNS = ROW_COLUMNS + 1 };

static Rows rows_of(const Py_buffer *columns)
{
    Rows rows;
    for (int column = 0; column < ROW_COLUMNS; column++)
        rows.columns[column] = numbers_of(&columns[column]);
    return rows;
}

/* Whether so many columns have one length; if not, there is an error. */
static bool check_columns(const Py_buffer *columns, int count)
{
    for (int column = 1; column < count; column++) {
        if (columns[column].len != columns[0].len) {
            PyErr_SetString(PyExc_ValueError, "columns of different lengths");
            return false;
        }
    }
    return true;
}

static void release(Py_buffer *columns, int count)
{
    for (int column = 0; column < count; column++)
        PyBuffer_Release(&columns[column]);
}

static PyObject *py_first_not_ascending(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer keys[EVENT_COLUMNS];
    int64_t place = 0;
    bool sound;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*", &keys[0], &keys[1], &keys[2], &keys[3]))
        return NULL;
    if ((sound = check_columns(keys, EVENT_COLUMNS)))
        place = first_not_ascending(rows_of(keys), numbers_of(&keys[ROW_COLUMNS]));
    release(keys, EVENT_COLUMNS);
    return sound ? PyLong_FromLongLong(place) : NULL;
}

static PyObject *py_find_hits(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer columns[2 * ROW_COLUMNS];
    PyObject *hits = NULL;
    bool sorted = true;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*y*", &columns[0], &columns[1], &columns[2], &columns[3], &columns[4],
                          &columns[5]))
        return NULL;
    if (check_columns(columns, ROW_COLUMNS) && check_columns(columns + ROW_COLUMNS, ROW_COLUMNS))
        hits = PyByteArray_FromStringAndSize(NULL, columns[0].len / 8);
    if (hits)
        sorted = find_hits(rows_of(columns), rows_of(columns + ROW_COLUMNS), (uint8_t *)PyByteArray_AsString(hits));
    release(columns, 2 * ROW_COLUMNS);
    if (sorted)
        return hits;
    Py_DECREF(hits);
    Py_RETURN_NONE;
}

static PyObject *py_hash_strings(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer data, offsets;
    PyObject *hashes;
    if (!PyArg_ParseTuple(arguments, "y*y*", &data, &offsets))
        return NULL;
    hashes = PyByteArray_FromStringAndSize(NULL, offsets.len / 8 ? (offsets.len / 8 - 1) * 8 : 0);
    if (hashes && !hash_strings((Stream){data.buf, data.len}, numbers_of(&offsets),
                                (uint64_t *)PyByteArray_AsString(hashes))) {
        Py_CLEAR(hashes);
        PyErr_SetString(PyExc_ValueError, "offsets outside of their data");
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    return hashes;
}

static PyObject *py_bloom_bits(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer hashes;
    int functions;
    Py_ssize_t size;
    PyObject *bits;
    if (!PyArg_ParseTuple(arguments, "y*in", &hashes, &functions, &size))
        return NULL;
    if (size < 1)
        PyErr_SetString(PyExc_ValueError, "a Bloom filter without bits");
    bits = size < 1 ? NULL : PyBytes_FromStringAndSize(NULL, size);
    if (bits) {
        uint8_t *bytes = (uint8_t *)PyBytes_AsString(bits);
        memset(bytes, 0, (size_t)size);
        set_bits(numbers_of(&hashes), functions, bytes, 8 * size);
    }
    PyBuffer_Release(&hashes);
    return bits;
}

/* What each does is said where it is called: encoding/rle.py, encoding/rle_encode.py, encoding/bloom.py,
 * encoding/integer_runs.py, file/statistics.py, merge/keys.py. */
static PyMethodDef functions[] = {
    {"decode_integers", py_decode_integers, METH_VARARGS,
     "(data: bytes, count: int, signed: bool, version: int) -> bytearray of 64-bit integers"},
    {"decode_bytes", py_decode_bytes, METH_VARARGS,
     "(data: bytes, count: int) -> bytearray"},
    {"split_varints", py_split_varints, METH_VARARGS,
     "(data: bytes) -> bytearray of 64-bit lengths"},
    {"steady_runs", py_steady_runs, METH_VARARGS,
     "(data: bytes, position: int, most: int) -> first value, step and length of each run, and the end of the runs"},
    {"encode_integers", py_encode_integers, METH_VARARGS,
     "(values, groups, signed: bool) -> (bytes, bytearray of 64-bit starts); arrays of 64-bit integers"},
    {"encode_bytes", py_encode_bytes, METH_VARARGS,
     "(values, groups) -> (bytes, bytearray of 64-bit starts); an array of bytes, one of 64-bit integers"},
    {"integer_statistics", py_integer_statistics, METH_VARARGS,
     "(values) -> least, greatest, and the sum or None; an array of 64-bit integers"},
    {"decimal_statistics", py_decimal_statistics, METH_VARARGS,
     "(data, offsets, scales) -> None, or for each scale: scale, least, greatest, high and low 64 bits of the sum"},
    {"string_bounds", py_string_bounds, METH_VARARGS,
     "(data, offsets) -> the places of the least and the greatest string"},
    {"timestamp_bounds", py_timestamp_bounds, METH_VARARGS,
     "(seconds, nanos) -> None, or the least and the greatest in milliseconds; arrays of 64-bit integers"},
    {"first_not_ascending", py_first_not_ascending, METH_VARARGS,
     "(write ids, buckets, row ids, current write ids) -> the place, or -1; arrays of 64-bit integers"},
    {"find_hits", py_find_hits, METH_VARARGS,
     "(three columns of rows, three of sorted deletes) -> None, or a bytearray of 0 and 1; arrays of 64-bit integers"},
    {"hash_strings", py_hash_strings, METH_VARARGS, "(data, offsets) -> bytearray of 64-bit hashes"},
    {"bloom_bits", py_bloom_bits, METH_VARARGS,
     "(hashes, functions: int, size: int) -> the bytes of a Bloom filter; an array of 64-bit integers"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kernels",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&definition);
}
