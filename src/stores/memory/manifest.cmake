holdfast_store(memory FOUND ON NEEDS "a C++20 compiler")
