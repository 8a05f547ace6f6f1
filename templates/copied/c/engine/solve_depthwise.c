// y and x of groups with one channel on either side.

#define ENGINE(part) OPWRIGHT_NAME(channelwise_data##part)
#define OVER_CHANNELS OPWRIGHT_NAME(depthwise_channels)
#define OVER_COLUMNS OPWRIGHT_NAME(depthwise_columns)

#include "depthwise_solves.h"
