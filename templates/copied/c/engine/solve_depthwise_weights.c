// w of groups with one channel on either side.

#define ENGINE(part) OPWRIGHT_NAME(channelwise_weights##part)
#define OVER_CHANNELS OPWRIGHT_NAME(depthwise_weights)
#define OVER_COLUMNS OPWRIGHT_NAME(weights_columns)

#include "depthwise_solves.h"
