// SPDX-License-Identifier: Apache-2.0
#include "client/python/identities.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace nb = nanobind;

namespace msitd::python {
namespace {

nb::str Name(const char* text) {
  return nb::steal<nb::str>(PyUnicode_InternFromString(text));
}

nb::object Get(nb::handle object, const nb::str& name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value == nullptr) throw nb::python_error();
  return nb::steal(value);
}

// Calls a method without arguments.
nb::object Call(nb::handle object, const nb::str& method) {
  PyObject* arguments[] = {nullptr, object.ptr()};
  PyObject* const value = PyObject_VectorcallMethod(
      method.ptr(), arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (value == nullptr) throw nb::python_error();
  return nb::steal(value);
}

bool IsTrue(const nb::object& value) {
  const int is_true = PyObject_IsTrue(value.ptr());
  if (is_true < 0) throw nb::python_error();
  return is_true != 0;
}

int64_t NumberFrom(nb::handle value) {
  const long long number = PyLong_AsLongLong(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

// Addresses may need all 64 bits.
int64_t AddressFrom(nb::handle value) {
  const unsigned long long number = PyLong_AsUnsignedLongLongMask(value.ptr());
  if (number == ~0ULL && PyErr_Occurred() != nullptr) throw nb::python_error();
  return static_cast<int64_t>(number);
}

std::vector<int64_t> NumbersFrom(const nb::object& tuple) {
  const Py_ssize_t count = PyTuple_Size(tuple.ptr());
  if (count < 0) throw nb::python_error();
  std::vector<int64_t> out;
  for (Py_ssize_t i = 0; i < count; ++i) {
    out.push_back(NumberFrom(PyTuple_GetItem(tuple.ptr(), i)));
  }
  return out;
}

// How the properties of a tensor were read. Their forms differ.
enum class Source : int64_t { kAttributes, kReader };

// The properties that determine the bytes of a tensor, as a key.
class Key {
 public:
  explicit Key(Source source) { Add(static_cast<int64_t>(source)); }

  void Add(int64_t number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }

  void Add(std::span<const int64_t> numbers) {
    Add(static_cast<int64_t>(numbers.size()));
    for (const int64_t number : numbers) Add(number);
  }

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Adds the number of collectives of each group so far: torch does not count
// changes that collectives make in place.
void AddCollectives(Key& key) {
  static const nb::str& module_name =
      *new nb::str(Name("torch.distributed.distributed_c10d"));
  static const nb::str& world_name = *new nb::str(Name("_world"));
  static const nb::str& groups_name = *new nb::str(Name("pg_map"));
  static const nb::str& count_name =
      *new nb::str(Name("_get_sequence_number_for_group"));
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const module = PyDict_GetItemWithError(modules, module_name.ptr());
  if (module == nullptr) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return;
  }
  const nb::object groups = Get(Get(module, world_name), groups_name);
  if (PyDict_Size(groups.ptr()) == 0) return;
  for (nb::handle group : nb::steal<nb::list>(PyDict_Keys(groups.ptr()))) {
    key.Add(NumberFrom(Call(group, count_name)));
  }
}

// Returns the result of `number_of`, or 0 if the tensor cannot be identified.
template <typename Function>
uint64_t OrNone(Function number_of) {
  try {
    return number_of();
  } catch (const nb::python_error& error) {
    // Wrappers such as those of functorch have no storage, and some groups do
    // not provide their count.
    if (!error.matches(PyExc_RuntimeError)) throw;
    return 0;
  }
}

uint64_t NextNumber() {
  // No other data depends on it.
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Identities::Torch::Torch()
    : layout(Name("layout")),
      is_inference(Name("is_inference")),
      is_neg(Name("is_neg")),
      is_conj(Name("is_conj")),
      untyped_storage(Name("untyped_storage")),
      cdata(Name("_cdata")),
      version(Name("_version")),
      data_ptr(Name("data_ptr")),
      shape(Name("shape")),
      stride(Name("stride")),
      dtype(Name("dtype")),
      base(Name("_base")),
      weak_reference(Name("_weak_ref")),
      dim(Name("dim")),
      is_floating_point(Name("is_floating_point")),
      requires_grad(Name("requires_grad")) {
  const nb::module_ module = nb::module_::import_("torch");
  tensor = module.attr("Tensor");
  parameter = module.attr("nn").attr("Parameter");
  strided = module.attr("strided");
  free_weak_reference = module.attr("UntypedStorage").attr("_free_weak_ref");
}

Identities::Identities(nb::object reader)
    : reader_object_(std::move(reader)),
      reader_(reader_object_.is_none()
                  ? nullptr
                  : &nb::cast<const TorchReader&>(reader_object_)) {}

uint64_t Identities::Of(nb::handle tensor) {
  TorchReader::Tensor seen;
  if (reader_ != nullptr && reader_->Read(tensor.ptr(), &seen)) {
    return Of(tensor, seen);
  }
  return OrNone([&] { return NumberOf(tensor); });
}

uint64_t Identities::Of(nb::handle tensor, const TorchReader::Tensor& seen) {
  return OrNone([&] { return NumberOf(tensor, seen); });
}

void Identities::Clear() {
  numbers_.clear();
  for (const auto& [address, reference] : std::exchange(storages_, {})) {
    PyObject* const freed =
        PyObject_CallFunction(torch_.free_weak_reference.ptr(), "K",
                              static_cast<unsigned long long>(reference));
    if (freed == nullptr) PyErr_WriteUnraisable(nullptr);
    Py_XDECREF(freed);
  }
}

uint64_t Identities::NumberOf(nb::handle tensor) {
  if (HasUncountedChanges(tensor)) return 0;
  const std::vector<int64_t> dims = NumbersFrom(Get(tensor, torch_.shape));
  if (MayBeStatistics(tensor, dims)) return 0;
  const nb::object storage = Call(tensor, torch_.untyped_storage);
  const int64_t address = AddressFrom(Get(storage, torch_.cdata));
  Key key(Source::kAttributes);
  key.Add(address);
  key.Add(NumberFrom(Get(tensor, torch_.version)));
  key.Add(AddressFrom(Call(tensor, torch_.data_ptr)));
  // A dtype is never destroyed.
  key.Add(static_cast<int64_t>(
      reinterpret_cast<intptr_t>(Get(tensor, torch_.dtype).ptr())));
  key.Add(dims);
  key.Add(NumbersFrom(Call(tensor, torch_.stride)));
  AddCollectives(key);
  return NumberOf(key.Take(), address, storage);
}

uint64_t Identities::NumberOf(nb::handle tensor,
                              const TorchReader::Tensor& seen) {
  // It has no version counter.
  if (IsTrue(Call(tensor, torch_.is_inference))) return 0;
  const auto dim_count = static_cast<size_t>(seen.dim_count);
  const std::span<const int64_t> dims(seen.dims, dim_count);
  if (MayBeStatistics(tensor, dims)) return 0;
  const nb::object storage = Call(tensor, torch_.untyped_storage);
  const int64_t address = AddressFrom(Get(storage, torch_.cdata));
  Key key(Source::kReader);
  key.Add(address);
  key.Add(NumberFrom(Get(tensor, torch_.version)));
  key.Add(static_cast<int64_t>(reinterpret_cast<intptr_t>(seen.data)));
  key.Add(seen.dtype);
  key.Add(dims);
  key.Add({seen.byte_strides, dim_count});
  AddCollectives(key);
  return NumberOf(key.Take(), address, storage);
}

uint64_t Identities::NumberOf(std::string key, int64_t address,
                              nb::handle storage) {
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return known->second;
  if (numbers_.size() >= kTensorsMax) Clear();
  Hold(address, storage);
  const uint64_t number = NextNumber();
  numbers_.emplace(std::move(key), number);
  return number;
}

bool Identities::HasUncountedChanges(nb::handle tensor) const {
  const nb::handle type = tensor.type();
  return !(type.is(torch_.tensor) || type.is(torch_.parameter)) ||
         !Get(tensor, torch_.layout).is(torch_.strided) ||
         // It has no version counter.
         IsTrue(Call(tensor, torch_.is_inference)) ||
         // A view of the same bytes with different values.
         IsTrue(Call(tensor, torch_.is_neg)) ||
         IsTrue(Call(tensor, torch_.is_conj));
}

// Returns whether a normalization may change the tensor or its base: torch does
// not count changes of running statistics of batches.
bool Identities::MayBeStatistics(nb::handle tensor,
                                 std::span<const int64_t> dims) const {
  if (!tensor.type().is(torch_.tensor)) return false;
  int64_t largest = 0;
  int64_t elements = 1;
  for (const int64_t size : dims) {
    largest = std::max(largest, size);
    elements *= size;
  }
  if (largest != elements) return false;
  const nb::object base = Get(tensor, torch_.base);
  const nb::handle whole = base.is_none() ? tensor : nb::handle(base);
  return NumberFrom(Call(whole, torch_.dim)) == 1 &&
         IsTrue(Call(whole, torch_.is_floating_point)) &&
         !IsTrue(Get(whole, torch_.requires_grad));
}

void Identities::Hold(int64_t address, nb::handle storage) {
  if (storages_.contains(address)) return;
  // While a weak reference exists, the address is not used again.
  const int64_t reference = AddressFrom(Call(storage, torch_.weak_reference));
  storages_.emplace(address, reference);
}

}  // namespace msitd::python
