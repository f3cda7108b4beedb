#include "app/program/commands.h"

int main(int argc, char** argv) { return skald::run_program({argv + 1, argv + argc}); }
