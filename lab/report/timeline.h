// Draws a picture as SVG: a row per owner, grouped by lock, time to the right.
//
// Guarantee: well-formed XML of one <svg>, without scripts, links or fonts of its own. Each box of
// the picture is a <g class="violation"> with its number and, as <title>, its words.
#pragma once

#include <iosfwd>
#include <string>

#include "lab/report/picture.h"

namespace holdfast::lab {

void draw(const Picture& picture, const std::string& heading, std::ostream& out);

// For text and attribute values: markup escaped, what XML cannot carry as "?".
std::string xml_text(std::string_view text);

}  // namespace holdfast::lab
