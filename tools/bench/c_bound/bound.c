/*
 * The C bound: what CPython's objects cost when messages are read and written by C that checks little.
 *
 * Executes the op tables of kafkawire.wire.layout, as the engines do, and writes the slots of msgspec structs in place.
 * Only for tools.bench: it knows neither unknown tags nor text that is no UTF-8, and explains nothing.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

enum { BOOL, I8, I16, I32, I64, U16, U32, F64, UUID, STR, BYTES, RECORDS, STRUCT };
enum { KIND = 15, COMPACT = 16, NULLABLE = 32, ARRAY = 64, MOST_SLOTS = 64, MOST_DEPTH = 32 };

typedef struct { int code, slot, arg; uint32_t tag; } Op;
typedef struct {
    PyTypeObject *cls;
    int flexible, slots, op_count, tag_count, fill_count;
    Op *ops, *tags;
    int fill[MOST_SLOTS];             /* slots that no op sets: they get their defaults */
    PyObject *defaults[MOST_SLOTS];   /* borrowed from the class */
    Py_ssize_t at[MOST_SLOTS];        /* where a slot lies in an object */
    Py_ssize_t least;                 /* bytes of the smallest value */
} Layout;
typedef struct { PyObject_HEAD int count; Layout *layouts; PyObject *keep; Py_ssize_t written; } Codec;

static PyTypeObject *uuid_type;
static PyObject *uuid_zero, *uuid_safe;
static Py_ssize_t uuid_int_at, uuid_safe_at;

#define SLOT(object, layout, slot) (*(PyObject **)((char *)(object) + (layout)->at[slot]))

/* Reading */

typedef struct { const uint8_t *p, *end; const Layout *layouts; int depth; } Reader;

static void *refuse(void) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "malformed, or nothing that the bound knows");
    return NULL;
}

static uint64_t big_endian(const uint8_t *p, int size) {
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value = value << 8 | p[i];
    return value;
}
#define NEED(size) if (r->end - r->p < (Py_ssize_t)(size)) return refuse()
#define FIXED(type, bits, make) { NEED(bits / 8); type v = (type)big_endian(r->p, bits / 8); r->p += bits / 8; return make(v); }

static int64_t read_uvarint(Reader *r) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35 && r->p < r->end; shift += 7) {
        uint8_t byte = *r->p++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value > UINT32_MAX ? -1 : (int64_t)value;
    }
    return -1;
}

/* A length: -1 is null, -2 an error. */
static int64_t read_length(Reader *r, int code, int wide) {
    int64_t length;
    if (code & COMPACT) {
        if ((length = read_uvarint(r)) < 0) return -2;
        length--;
    } else {
        int size = wide ? 4 : 2;
        if (r->end - r->p < size) return -2;
        length = wide ? (int32_t)big_endian(r->p, 4) : (int16_t)big_endian(r->p, 2);
        r->p += size;
    }
    return length >= 0 || (length == -1 && code & NULLABLE) ? length : -2;
}

static PyObject *read_struct(Reader *r, const Layout *layout);

static PyObject *read_uuid(const uint8_t *p) {
    static const uint8_t zero[16];
    if (!memcmp(p, zero, 16)) return Py_NewRef(uuid_zero);
    PyObject *number = _PyLong_FromByteArray(p, 16, 0, 0);
    if (!number) return NULL;
    PyObject *uuid = uuid_type->tp_alloc(uuid_type, 0);
    if (!uuid) { Py_DECREF(number); return NULL; }
    *(PyObject **)((char *)uuid + uuid_int_at) = number;
    *(PyObject **)((char *)uuid + uuid_safe_at) = Py_NewRef(uuid_safe);
    return uuid;
}

static PyObject *read_value(Reader *r, int code, int arg) {
    int kind = code & KIND;
    if (code & ARRAY) {
        int64_t count = read_length(r, code, 1);
        if (count < 0) return count == -1 ? Py_NewRef(Py_None) : refuse();
        Py_ssize_t least = kind == STRUCT ? r->layouts[arg].least : 1;
        if (count > (r->end - r->p) / (least ? least : 1)) return refuse();
        PyObject *values = PyTuple_New(count);
        for (int64_t i = 0; values && i < count; i++) {
            PyObject *value = kind == STRUCT ? read_struct(r, r->layouts + arg) : read_value(r, code & ~ARRAY & ~NULLABLE, 0);
            if (!value) { Py_CLEAR(values); break; }
            PyTuple_SET_ITEM(values, i, value);
        }
        return values;
    }
    switch (kind) {
    case BOOL: NEED(1); return PyBool_FromLong(*r->p++);
    case I8: FIXED(int8_t, 8, PyLong_FromLong)
    case I16: FIXED(int16_t, 16, PyLong_FromLong)
    case I32: FIXED(int32_t, 32, PyLong_FromLong)
    case I64: FIXED(int64_t, 64, PyLong_FromLongLong)
    case U16: FIXED(uint16_t, 16, PyLong_FromLong)
    case U32: FIXED(uint32_t, 32, PyLong_FromUnsignedLong)
    case F64: { NEED(8); uint64_t bits = big_endian(r->p, 8); double v; memcpy(&v, &bits, 8); r->p += 8; return PyFloat_FromDouble(v); }
    case UUID: NEED(16); r->p += 16; return read_uuid(r->p - 16);
    case STRUCT:
        if (code & NULLABLE) {
            NEED(1);
            int there = code & COMPACT ? *r->p : (int8_t)*r->p >= 0;
            r->p++;
            if (!there) return Py_NewRef(Py_None);
        }
        return read_struct(r, r->layouts + arg);
    default: {
        int64_t length = read_length(r, code, kind != STR);
        if (length < 0) return length == -1 ? Py_NewRef(Py_None) : refuse();
        NEED(length);
        const char *data = (const char *)r->p;
        r->p += length;
        return kind == STR ? PyUnicode_DecodeUTF8(data, length, NULL) : PyBytes_FromStringAndSize(data, length);
    } }
}

static int read_tags(Reader *r, const Layout *layout, PyObject *object, int64_t count) {
    while (count--) {
        int64_t tag = read_uvarint(r), size = read_uvarint(r);
        if (tag < 0 || size < 0 || r->end - r->p < size) return -1;
        const uint8_t *end = r->p + size;
        const Op *op = layout->tags, *behind = op + layout->tag_count;
        while (op < behind && op->tag != tag) op++;
        if (op == behind) return -1;
        PyObject *value = read_value(r, op->code, op->arg);
        if (!value) return -1;
        Py_XSETREF(SLOT(object, layout, op->slot), value);
        if (r->p != end) return -1;
    }
    return 0;
}

static PyObject *read_struct(Reader *r, const Layout *layout) {
    if (++r->depth > MOST_DEPTH) return refuse();
    PyObject *object = layout->cls->tp_alloc(layout->cls, 0);
    if (!object) return NULL;
    for (const Op *op = layout->ops, *end = op + layout->op_count; op < end; op++) {
        PyObject *value = read_value(r, op->code, op->arg);
        if (!value) { Py_DECREF(object); return NULL; }
        SLOT(object, layout, op->slot) = value;
    }
    if (layout->flexible) {
        int64_t count = read_uvarint(r);
        if (count < 0 || read_tags(r, layout, object, count)) { Py_DECREF(object); return refuse(); }
    }
    for (int i = 0; i < layout->fill_count; i++) {
        int slot = layout->fill[i];
        if (!SLOT(object, layout, slot)) SLOT(object, layout, slot) = Py_NewRef(layout->defaults[slot]);
    }
    r->depth--;
    return object;
}

static PyObject *decode(Codec *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyBytes_CheckExact(args[0])) { PyErr_SetString(PyExc_TypeError, "decode(bytes, layout)"); return NULL; }
    long root = PyLong_AsLong(args[1]);
    if (root < 0 || root >= self->count) return refuse();
    const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(args[0]);
    Reader r = {start, start + PyBytes_GET_SIZE(args[0]), self->layouts, 0};
    PyObject *object = read_struct(&r, self->layouts + root);
    if (object && r.p != r.end) { Py_DECREF(object); return refuse(); }
    return object;
}

/* Writing */

typedef struct { PyObject *bytes; uint8_t *start, *p, *end; const Layout *layouts; } Writer;

static int room(Writer *w, Py_ssize_t size) {
    if (w->end - w->p >= size) return 0;
    Py_ssize_t used = w->p - w->start, whole = 2 * (used + size) + 64;
    if (_PyBytes_Resize(&w->bytes, whole)) return -1;
    w->start = (uint8_t *)PyBytes_AS_STRING(w->bytes);
    w->p = w->start + used;
    w->end = w->start + whole;
    return 0;
}

static int write_number(Writer *w, uint64_t value, int size) {
    if (room(w, size)) return -1;
    for (int i = size; i--; value >>= 8) w->p[i] = (uint8_t)value;
    w->p += size;
    return 0;
}

static int write_uvarint(Writer *w, uint64_t value) {
    if (room(w, 5)) return -1;
    for (; value > 127; value >>= 7) *w->p++ = (uint8_t)(value | 128);
    *w->p++ = (uint8_t)value;
    return 0;
}

static int write_bytes(Writer *w, const void *data, Py_ssize_t size) {
    if (room(w, size)) return -1;
    memcpy(w->p, data, size);
    w->p += size;
    return 0;
}

static int write_length(Writer *w, int code, int64_t length, int wide) {
    return code & COMPACT ? write_uvarint(w, (uint64_t)(length + 1)) : write_number(w, (uint64_t)length, wide ? 4 : 2);
}

static int write_struct(Writer *w, const Layout *layout, PyObject *object);

static int write_value(Writer *w, int code, int arg, PyObject *value) {
    static const int sizes[] = {1, 1, 2, 4, 8, 2, 4};
    int kind = code & KIND;
    if (value == Py_None) {
        if (!(code & NULLABLE)) return refuse(), -1;
        if (kind == STRUCT && !(code & ARRAY)) return write_number(w, code & COMPACT ? 0 : 255, 1);
        return write_length(w, code, -1, kind != STR || code & ARRAY);
    }
    if (code & ARRAY) {
        if (!PyTuple_CheckExact(value) || write_length(w, code, PyTuple_GET_SIZE(value), 1)) return refuse(), -1;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            PyObject *item = PyTuple_GET_ITEM(value, i);
            if (kind == STRUCT ? write_struct(w, w->layouts + arg, item) : write_value(w, code & ~ARRAY & ~NULLABLE, 0, item))
                return -1;
        }
        return 0;
    }
    switch (kind) {
    case BOOL: return write_number(w, value == Py_True, 1);
    case F64: { double v = PyFloat_AsDouble(value); uint64_t bits; memcpy(&bits, &v, 8); return write_number(w, bits, 8); }
    case UUID: {
        if (room(w, 16) || Py_TYPE(value) != uuid_type) return refuse(), -1;
        PyObject *number = *(PyObject **)((char *)value + uuid_int_at);
        w->p += 16;
        return _PyLong_AsByteArray((PyLongObject *)number, w->p - 16, 16, 0, 0);
    }
    case STR: {
        Py_ssize_t size;
        const char *data = PyUnicode_AsUTF8AndSize(value, &size);
        return !data || write_length(w, code, size, 0) ? -1 : write_bytes(w, data, size);
    }
    case BYTES: case RECORDS:
        if (!PyBytes_CheckExact(value) || write_length(w, code, PyBytes_GET_SIZE(value), 1)) return refuse(), -1;
        return write_bytes(w, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
    case STRUCT:
        if (code & NULLABLE && write_number(w, 1, 1)) return -1;
        return write_struct(w, w->layouts + arg, value);
    default: {
        int overflow;
        int64_t v = PyLong_AsLongLongAndOverflow(value, &overflow);
        int bits = 8 * sizes[kind];
        int64_t least = kind >= U16 ? 0 : INT64_MIN >> (64 - bits), most = kind >= U16 ? (1LL << bits) - 1 : ~least;
        return overflow || v < least || v > most ? (refuse(), -1) : write_number(w, (uint64_t)v, sizes[kind]);
    } }
}

static int write_tag(Writer *w, const Op *op, PyObject *value) {
    if (write_uvarint(w, op->tag) || room(w, 1)) return -1;
    Py_ssize_t at = ++w->p - w->start; /* one byte for the size; more are made where it is not enough */
    if (write_value(w, op->code, op->arg, value)) return -1;
    uint64_t size = (uint64_t)(w->p - w->start - at);
    int more = 0;
    for (uint64_t rest = size; rest > 127; rest >>= 7) more++;
    if (room(w, more)) return -1;
    memmove(w->start + at + more, w->start + at, size);
    w->p += more;
    uint8_t *p = w->start + at - 1;
    for (; size > 127; size >>= 7) *p++ = (uint8_t)(size | 128);
    *p = (uint8_t)size;
    return 0;
}

static int write_struct(Writer *w, const Layout *layout, PyObject *object) {
    if (Py_TYPE(object) != layout->cls) return refuse(), -1;
    for (const Op *op = layout->ops, *end = op + layout->op_count; op < end; op++)
        if (write_value(w, op->code, op->arg, SLOT(object, layout, op->slot))) return -1;
    if (!layout->flexible) return 0;
    if (PyTuple_GET_SIZE(SLOT(object, layout, layout->slots - 1))) return refuse(), -1;
    uint64_t set = 0, count = 0;
    for (int i = 0; i < layout->tag_count; i++) {
        int slot = layout->tags[i].slot;
        PyObject *value = SLOT(object, layout, slot), *usual = layout->defaults[slot];
        int same = value == usual ? 1 : PyObject_RichCompareBool(value, usual, Py_EQ);
        if (same < 0) return -1;
        if (!same) { set |= 1ULL << i; count++; }
    }
    if (write_uvarint(w, count)) return -1;
    for (int i = 0; set >> i; i++)
        if (set >> i & 1 && write_tag(w, layout->tags + i, SLOT(object, layout, layout->tags[i].slot))) return -1;
    return 0;
}

static PyObject *encode(Codec *self, PyObject *const *args, Py_ssize_t count) {
    long root = count == 2 ? PyLong_AsLong(args[1]) : -1;
    if (root < 0 || root >= self->count) return refuse();
    Py_ssize_t size = self->written > 192 ? self->written + 64 : 256; /* as large as the last one */
    Writer w = {PyBytes_FromStringAndSize(NULL, size), NULL, NULL, NULL, self->layouts};
    if (!w.bytes) return NULL;
    w.start = w.p = (uint8_t *)PyBytes_AS_STRING(w.bytes);
    w.end = w.start + size;
    if (write_struct(&w, self->layouts + root, args[0])) { Py_XDECREF(w.bytes); return refuse(); }
    self->written = w.p - w.start;
    _PyBytes_Resize(&w.bytes, self->written);
    return w.bytes;
}

/* Tables */

static Py_ssize_t member(PyObject *cls, PyObject *name) {
    PyObject *found = PyObject_GetAttr(cls, name);
    if (!found) return -1;
    Py_ssize_t at = -1;
    if (Py_IS_TYPE(found, &PyMemberDescr_Type) && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX)
        at = ((PyMemberDescrObject *)found)->d_member->offset;
    Py_DECREF(found);
    return at;
}

static Op *load_ops(PyObject *listed, int *count, const char *format, int tagged) {
    *count = (int)PyTuple_GET_SIZE(listed);
    Op *ops = PyMem_Calloc(*count + 1, sizeof *ops);
    for (int i = 0; ops && i < *count; i++) {
        Op *op = ops + i;
        PyObject *item = PyTuple_GET_ITEM(listed, i);
        if (!(tagged ? PyArg_ParseTuple(item, format, &op->tag, &op->code, &op->slot, &op->arg)
                     : PyArg_ParseTuple(item, format, &op->code, &op->slot, &op->arg))) return NULL;
    }
    return ops;
}

/* Codec(layouts): each is (class, flexible, least bytes, ops, tags), as in kafkawire.wire.layout. */
static int init(Codec *self, PyObject *args, PyObject *kwargs) {
    PyObject *listed;
    if (self->layouts || !PyArg_ParseTuple(args, "O!", &PyTuple_Type, &listed)) return -1;
    self->keep = Py_NewRef(listed);
    self->count = (int)PyTuple_GET_SIZE(listed);
    if (!(self->layouts = PyMem_Calloc(self->count + 1, sizeof(Layout)))) return -1;
    for (int i = 0; i < self->count; i++) {
        Layout *layout = self->layouts + i;
        PyObject *ops, *tags;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(listed, i), "O!pnO!O!", &PyType_Type, &layout->cls, &layout->flexible,
                              &layout->least, &PyTuple_Type, &ops, &PyTuple_Type, &tags)) return -1;
        PyObject *names = PyObject_GetAttrString((PyObject *)layout->cls, "__struct_fields__");
        PyObject *defaults = PyObject_GetAttrString((PyObject *)layout->cls, "__struct_defaults__");
        if (!names || !defaults || (layout->slots = (int)PyTuple_GET_SIZE(names)) > MOST_SLOTS) return refuse(), -1;
        if (!(layout->ops = load_ops(ops, &layout->op_count, "iii", 0))) return -1;
        if (!(layout->tags = load_ops(tags, &layout->tag_count, "Iiii", 1))) return -1;
        for (int slot = 0; slot < layout->slots; slot++) {
            layout->defaults[slot] = PyTuple_GET_ITEM(defaults, slot);
            if ((layout->at[slot] = member((PyObject *)layout->cls, PyTuple_GET_ITEM(names, slot))) < 0) return refuse(), -1;
            int used = 0;
            for (int k = 0; k < layout->op_count; k++) used |= layout->ops[k].slot == slot;
            if (!used) layout->fill[layout->fill_count++] = slot;
        }
        Py_DECREF(names);
        Py_DECREF(defaults);
    }
    return 0;
}

static PyMethodDef methods[] = {
    {"decode", (PyCFunction)(void *)decode, METH_FASTCALL, NULL},
    {"encode", (PyCFunction)(void *)encode, METH_FASTCALL, NULL},
    {0},
};
static PyType_Slot codec_slots[] = {{Py_tp_init, init}, {Py_tp_methods, methods}, {Py_tp_new, PyType_GenericNew}, {0}};
static PyType_Spec codec_spec = {"bound.Codec", sizeof(Codec), 0, Py_TPFLAGS_DEFAULT, codec_slots};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "bound", NULL, -1, NULL};

PyMODINIT_FUNC PyInit_bound(void) {
    PyObject *uuid = PyImport_ImportModule("uuid"), *name = PyUnicode_FromString("int"), *safe = PyUnicode_FromString("is_safe");
    if (!uuid || !name || !safe) return NULL;
    uuid_type = (PyTypeObject *)PyObject_GetAttrString(uuid, "UUID");
    uuid_safe = PyObject_GetAttrString(PyObject_GetAttrString(uuid, "SafeUUID"), "unknown");
    uuid_zero = PyObject_CallFunction((PyObject *)uuid_type, "s", "00000000000000000000000000000000");
    uuid_int_at = member((PyObject *)uuid_type, name);
    uuid_safe_at = member((PyObject *)uuid_type, safe);
    PyObject *module = PyModule_Create(&definition);
    if (!uuid_zero || !module || uuid_int_at < 0 || uuid_safe_at < 0) return NULL;
    PyObject *codec = PyType_FromSpec(&codec_spec);
    return codec && !PyModule_AddObjectRef(module, "Codec", codec) ? module : NULL;
}
